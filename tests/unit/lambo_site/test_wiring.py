"""What the settings of a process become: an embedder that is used, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosting import AGENT, statement
from lambo_site.configuration import ProcessSettings
from lambo_site.setting_readers import AuthMode, EmbedderKind
from lambo_site.wiring import build_host
from memory.engine.config import Config, Durability, MatchStrategy
from memory.engine.errors import InvalidConfiguration
from memory.engine.requests import Caller, RecallRequest
from memory.engine.rights import Scope
from memory.engine.tokens import TokenRequest


def settings_of(folder: Path, kind: EmbedderKind, **others: object) -> ProcessSettings:
    config = Config(durability=Durability.MEMORY, match_strategy=MatchStrategy.HYBRID)
    return ProcessSettings(data_dir=folder, embedder_kind=kind, config=config, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [EmbedderKind.FIXTURE, EmbedderKind.NONE])
async def test_a_configured_embedder_links_and_finds_by_meaning(
    tmp_path: Path, kind: EmbedderKind
) -> None:
    host = build_host(settings_of(tmp_path, kind), node_id="node")
    await host.start()
    try:
        texts = ("billing service retries 3 times", "the billing service retries three times")
        replies = [
            await host.write("s", lambda m, t=text: m.derive(statement(t), AGENT), create=True)  # type: ignore[misc]
            for text in texts
        ]
        for number in range(4):
            request = statement(f"noise {number} of another kind")
            await host.write("s", lambda m, r=request: m.derive(r, AGENT), create=True)  # type: ignore[misc]
        asked = RecallRequest("retrying", top_k=5, traversal_depth=0)
        found = await (await host.view("s")).recall(asked)
    finally:
        await host.close()
    is_hybrid = kind is EmbedderKind.FIXTURE
    linked = replies[1].structured.get("semantic_merged")
    assert linked == (replies[0].structured["created"] if is_hybrid else None)
    assert "billing" in found.text  # its stem is a word of both


def test_an_embedder_that_cannot_work_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"embedder\.model_path"):
        build_host(settings_of(tmp_path, EmbedderKind.LLAMA), node_id="node")


def test_the_demo_goes_by_words_whatever_is_configured(tmp_path: Path) -> None:
    build_host(settings_of(tmp_path, EmbedderKind.LLAMA, is_demo=True), node_id="node")


@pytest.mark.parametrize("mode", AuthMode)
async def test_the_age_of_a_token_counts_only_where_nobody_may_borrow_its_name(
    tmp_path: Path, mode: AuthMode
) -> None:
    """One caller in local mode wrote under the names of two token holders and met the quorum."""
    host = build_host(settings_of(tmp_path, EmbedderKind.NONE, auth_mode=mode), node_id="node")
    await host.start()
    try:
        request = TokenRequest("ci", "ann", frozenset({Scope.WRITE}), ("*",))
        await host.tokens.create(request, Caller("olga", is_operator=True))
        ages = await host.cycles.token_ages()
    finally:
        await host.close()
    assert set(ages.created_at) == ({"ann"} if mode is AuthMode.TOKENS else set())
