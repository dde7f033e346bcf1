"""The demo's story by the real clock, twice: whatever differs is an id, a time, or a score by time.

By the demo's own clock every run is the same bytes (`test_determinism`). By the real one each line
that differs must be of a known kind, so that nothing else depends on the run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from memory.cli.demo_rest_api import play, read_trail
from memory.cli.demo_server import DATABASE_FILE
from memory.client import LamboClient
from memory.data_folder import read_runtime
from serving import serving

pytestmark = pytest.mark.slow

UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z|\d+ seconds? ago")
SCORE: Final = re.compile(
    r'("(?:score|coverage|measured)": )\d+(?:\.\d+)?(?:e-\d+)?|(\(score )\d+\.\d+'
)
"""What recency and the span of a session enter."""
POSITION: Final = re.compile(r'("position": )\d+')
"""Where a log stands: what the server notes by itself as time passes counts too."""

LASTED: Final = re.compile(r'("(?:round|flush_lag)_ms": )\d+(?:\.\d+)?')
"""How long something took, or waits."""

KINDS: Final[dict[str, Callable[[str], str]]] = {
    "id": lambda line: UUID.sub("<id>", line),
    "time": lambda line: TIME.sub("<time>", line),
    "duration": lambda line: LASTED.sub(r"\1<lasted>", line),
    "position by time": lambda line: POSITION.sub(r"\1<position>", line),
    "score by time": lambda line: SCORE.sub(r"\1\2<score>", line),
}


class Recorded:
    """A client whose every answer is kept."""

    def __init__(self, client: LamboClient) -> None:
        self._client = client
        self.answers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._client, name)

        def call(*words: Any, **given: Any) -> Any:
            answer = called(*words, **given)
            self.answers.append([name, answer["structured"]])
            return answer

        return call


def lines_of_a_run(folder: Path) -> list[str]:
    """All that a run was answered and left behind, a line for each value."""
    folder.mkdir()
    with serving(folder, LAMBO_EMBEDDER="none") as server:
        runtime = read_runtime(server.data_dir)
        assert runtime is not None
        with LamboClient(server.url, operator_secret=runtime.operator_secret) as client:
            recorded = Recorded(client)
            outcome = play(recorded)  # type: ignore[arg-type]  # a client, and it listens
        outcome |= read_trail(server.data_dir / DATABASE_FILE)
    return json.dumps(spread([outcome, recorded.answers]), indent=1).splitlines()


def spread(value: Any) -> Any:
    """The same with each text of several lines as a list of them."""
    if isinstance(value, dict):
        return {name: spread(held) for name, held in value.items()}
    if isinstance(value, list):
        return [spread(held) for held in value]
    return value.split("\n") if isinstance(value, str) and "\n" in value else value


def kind_of(one: str, other: str) -> str | None:
    """What makes two lines differ, the fewest kinds that explain it; None if nothing known does."""
    used = []
    for name, mask in KINDS.items():
        if mask(one) != one or mask(other) != other:
            one, other = mask(one), mask(other)
            used.append(name)
        if one == other:
            return " and ".join(used)
    return None


def test_by_the_real_clock_every_line_that_differs_is_of_a_known_kind(tmp_path: Path) -> None:
    first, second = (lines_of_a_run(tmp_path / f"run-{number}") for number in range(2))
    pairs = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    kinds = {pair: kind_of(*pair) for pair in pairs}
    print(f"\n{len(first)} lines, {Counter(kinds.values())}")
    assert [pair for pair, kind in kinds.items() if kind is None] == []
    assert "id" in kinds.values()


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ('"created": 3,', '"created": 4,', None),
        ('"status": "None"', '"status": "Candidate"', None),
        ('"score": 0.25,', '"score": 0.26,', "score by time"),
        ("user schema (score 0.25)", "auth middleware (score 0.25)", None),
        ("wrote 1 second ago", "wrote 2 seconds ago", "time"),
        ('"blast_radius": 15', '"blast_radius": 14', None),
    ],
)
def test_what_is_no_id_time_or_score_is_not_excused(one: str, other: str, kind: str | None) -> None:
    assert kind_of(one, other) == kind
