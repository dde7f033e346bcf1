"""`lambo canon ...` against a store with nobody serving it, and beside a server."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_django import DjangoDbBlocker

from canon_stores import (
    LADDER,
    START,
    Told,
    play_scenario,
    run_canon,
    scenario_snapshot,
    store_snapshot,
)
from command_line import CommandLine
from engine_database import engine_database
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.embedding import FIXTURE, vector_bytes
from memory.engine.graph import Graph
from memory.engine.mutations import PutEdge, PutSynonym
from memory.engine.requests import ConceptInput, DeriveRequest
from memory.engine.rights import Scope
from memory.engine.snapshot import take_snapshot
from memory.engine.tokens import TokenRecord
from memory.engine.types import ConceptType, Edge, EdgeType, Snapshot
from memory.engine.wire import snapshot_from_json, snapshot_to_json
from memory.store.tokens import DjangoTokenStore
from memory.testing import SequentialIds
from shared_data import SHARED

GOLDEN = Path(__file__).parents[2] / "golden" / "canon_json.json"
PUBLIC = SHARED / "fixtures" / "lambo" / "session-rest-api.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker) -> Path:
    """A data folder that a server left behind, with sessions of known outcome."""
    data = tmp_path_factory.mktemp("canon") / "data"
    data.mkdir()
    with django_db_blocker.unblock(), engine_database(data) as database:
        store = database.store()
        store_snapshot(store, "demo", scenario_snapshot())
        store_snapshot(store, "marked", marked_snapshot())
        store_snapshot(store, "near", near_snapshot(), contract=FIXTURE)
        if PUBLIC.is_file():
            public = snapshot_from_json(json.loads(PUBLIC.read_text(encoding="utf-8")))
            store_snapshot(store, "public", public)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return data


def marked_snapshot() -> Snapshot:
    """The scenario with a declared synonym and a suspicion."""
    graph = play_scenario(SequentialIds(10_000))
    graph.apply(PutSynonym("redis backend", "session store"))
    newer, older = (graph.find_by_content(text) for text in ("user serializer", "user fixtures"))
    assert newer is not None
    assert older is not None
    ends = graph.id_at(newer), graph.id_at(older)
    edge_id = "eeeeeeee-0000-4000-8000-000000000001"
    suspicion = Edge(
        edge_id, *ends, EdgeType.SUSPECTED_SUPERSEDES, 0.91, 1, START, START, "ann", "ann"
    )
    graph.apply(PutEdge(suspicion))
    return take_snapshot(graph)


def near_snapshot() -> Snapshot:
    """A cited name beside a longer statement with nearly its meaning."""
    graph, ids = Graph("near", START, contract=FIXTURE), SequentialIds(20_000)
    entity = ConceptType.ENTITY
    for place, concept in enumerate(
        (
            ConceptInput("session store", entity),
            ConceptInput("the session store lives in redis", ConceptType.LOGIC),
            ConceptInput("login page", entity, ("session store",)),
        )
    ):
        stamp = Stamp("ann", START + place, ids)
        plan = plan_derive(graph, DeriveRequest((concept,), ()), stamp, co_occurrence_max=10)
        graph.apply_all(plan.mutations)
    first = np.zeros(FIXTURE.dim, dtype=np.float32)
    first[0] = 1.0
    second = np.zeros(FIXTURE.dim, dtype=np.float32)
    second[:2] = 0.96, 0.28  # of length one, so the cosine is 0.96
    vectors = []
    for text, vector in (("session store", first), ("the session store lives in redis", second)):
        row = graph.find_by_content(text)
        assert row is not None
        vectors.append((graph.id_at(row), vector_bytes(vector)))
    return take_snapshot(graph)._replace(vectors=tuple(sorted(vectors)))


def stored_bytes(folder: Path) -> str:
    """Of the database; its log is empty, and what a reader makes beside it holds no data."""
    log = folder / "lambo.sqlite3-wal"
    assert not log.exists() or log.stat().st_size == 0
    return hashlib.sha256((folder / "lambo.sqlite3").read_bytes()).hexdigest()


# -- dry-run ---------------------------------------------------------------------------------------


def test_dry_run_gives_the_scenario_its_ladder_and_writes_nothing(folder: Path) -> None:
    before = stored_bytes(folder)
    told = run_canon(folder, "dry-run", "--session", "demo", "--json")
    (report,) = told.json["reports"]
    assert {move["content"]: move["to_status"] for move in report["moves"]} == LADDER
    assert report["statuses"] == {"None": 17, "Candidate": 6, "Venerable": 3, "Canonical": 1}
    assert report["statuses_before"] == {
        "None": 27,
        "Candidate": 0,
        "Venerable": 0,
        "Canonical": 0,
    }
    assert len(report["transitions"]) == 15
    (top,) = (move for move in report["moves"] if move["content"] == "user schema")
    assert top["blast_radius"] == 15
    assert told.json["state"] == {
        "session": "demo",
        "source": "store",
        "position": 1,
        "interactions": 12,
        "concepts": 27,
        "edges": 114,
        "latest_write_at": "2023-11-14T22:13:20.110000Z",
        "server": "not running",
    }
    again = run_canon(folder, "inspect", "user schema", "--session", "demo", "--json").json
    assert again["admission"]["status"] == "None"
    assert stored_bytes(folder) == before


def test_dry_run_tries_every_policy_and_shows_tables(folder: Path) -> None:
    told = run_canon(folder, "dry-run", "--session", "demo", "--policy", "all", "--supersede")
    assert told.code == 0
    titles = [line for line in told.out.splitlines() if line.startswith("policy ")]
    assert [title.split()[1] for title in titles] == ["swarm,", "solo,", "quorum,"]
    assert all("superseding: at rest after" in title for title in titles)
    rows = [line.split() for line in told.out.splitlines()]
    # Under swarm and solo; under quorum nobody counts, since no agent has a token.
    assert rows.count(["Canonical", "None", "user", "schema"]) == 2
    assert ["Canonical", "0", "1"] in rows
    assert "one gate away" in told.out
    assert told.err.splitlines()[0] == (
        "lambo canon dry-run: session 'demo' as committed at position 1: 27 concepts, 114 edges, "
        "12 interactions; the server is not running"
    )


def test_dry_run_reads_a_snapshot_file(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(snapshot_to_json(scenario_snapshot())), encoding="utf-8")
    told = run_canon(folder, "dry-run", "--from", str(file), "--json").json
    assert told["state"]["source"] == str(file)
    assert (told["state"]["position"], told["state"]["server"]) == (None, None)
    (report,) = told["reports"]
    assert {move["content"]: move["to_status"] for move in report["moves"]} == LADDER


def test_tokens_count_for_the_commands_where_they_count_for_the_server(
    tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    """Tokens were counted in local mode too, where anybody may go by the names of their agents."""
    data = tmp_path / "data"
    data.mkdir()
    snapshot = scenario_snapshot()
    agents = {concept.origin_agent for concept in snapshot.concepts}
    with django_db_blocker.unblock(), engine_database(data) as database:
        store_snapshot(database.store(), "demo", snapshot)
        tokens = DjangoTokenStore(database.writer, database.reader)
        for number, agent in enumerate(sorted(agents)):
            scopes, digest = frozenset({Scope.WRITE}), f"{number:064}"
            tokens.put_token(
                TokenRecord(f"{number:016}", "ci", agent, scopes, ("*",), False, digest, START - 1)
            )
    quorum = {"LAMBO_PROMOTION_POLICY": "quorum"}
    inspecting = ("inspect", "user schema", "--session", "demo", "--json")
    for words in (
        ("dry-run", "--session", "demo", "--json"),
        inspecting,
        ("alias-preview", "--session", "demo", "--json"),
    ):
        (warning,) = run_canon(data, *words, **quorum).json["warnings"]
        assert "names are not proven" in warning
        assert run_canon(data, *words, **quorum, LAMBO_AUTH="tokens").json["warnings"] == []
        assert run_canon(data, *words).json["warnings"] == []
    local = run_canon(data, *inspecting, **quorum).json["admission"]
    asked = run_canon(data, *inspecting, **quorum, LAMBO_AUTH="tokens").json["admission"]
    assert (local["agents"], asked["agents"]) == (0, 1)


def test_dry_run_of_a_file_needs_no_data_folder(tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(snapshot_to_json(scenario_snapshot())), encoding="utf-8")
    told = run_canon(tmp_path / "none", "dry-run", "--from", str(file), "--policy", "all", "--json")
    assert len(told.json["reports"]) == 3
    assert "names are not proven" in told.json["warnings"][0]
    words = ("dry-run", "--from", str(file), "--policy", "quorum", "--json")
    told = run_canon(tmp_path / "none", *words, LAMBO_AUTH="tokens")
    assert "no agent is known to have a token" in told.json["warnings"][0]
    assert not (tmp_path / "none").exists()


# -- the others ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("concept", "distinct", "coverage", "radius", "status"),
    [
        ("user schema", 6, 25 / 55, 6, "Canonical"),
        ("api layer", 3, 30 / 55, 3, "Venerable"),
    ],
)
def test_the_public_session_is_explained_as_published(
    folder: Path, concept: str, distinct: int, coverage: float, radius: int, status: str
) -> None:
    if not PUBLIC.is_file():
        pytest.skip(f"shared data absent: {PUBLIC.name}")
    told = run_canon(folder, "inspect", concept, "--session", "public", "--json").json
    admission = told["admission"]
    assert (admission["distinct"], admission["blast_radius"]) == (distinct, radius)
    assert admission["coverage"] == pytest.approx(coverage, abs=1e-12)
    assert admission["status"] == status
    failing = [check["gate"] for check in admission["checks"] if not check["met"]]
    assert failing == ([] if status == "Canonical" else ["blast_radius"])
    assert len(admission["supports"]) == admission["support_count"] == radius


def test_inspect_shows_every_gate_to_people(folder: Path) -> None:
    told = run_canon(folder, "inspect", "rate limiter", "--session", "demo")
    assert told.out.splitlines()[1:7] == [
        "None under swarm, not yet Candidate",
        "  - What rests on it comes from 1 other interaction that is old enough; 2 are needed.",
        "gates:",
        "  gate                   measured  bar  passed",
        "  gc_survived            3         3    yes",
        "  distinct_interactions  1         2    no",
    ]


def test_suspected_lists_pairs(folder: Path) -> None:
    told = run_canon(folder, "suspected", "--session", "marked")
    assert told.out.splitlines() == [
        "suspected: 1",
        "  cosine  newer            may replace",
        "  0.91    user serializer  user fixtures",
    ]


def test_alias_preview_measures_the_ruling_with_the_citations_of_the_name(folder: Path) -> None:
    told = run_canon(folder, "alias-preview", "--session", "marked", "--json").json
    (move,) = told["moves"]
    assert (move["name_content"], move["ruling_content"]) == ("redis backend", "session store")
    # Cited by three acts and by two; one act cites both.
    assert (move["citations"], move["cosine"]) == (3, None)
    assert (move["before"]["distinct"], move["after"]["distinct"]) == (2, 3)
    assert told["similar_from"] is None


def test_alias_preview_suggests_by_meaning_when_asked(folder: Path) -> None:
    assert run_canon(folder, "alias-preview", "--session", "near", "--json").json["moves"] == []
    told = run_canon(folder, "alias-preview", "--session", "near", "--similar", "--json").json
    (move,) = told["moves"]
    assert move["ruling_content"] == "the session store lives in redis"
    assert move["cosine"] == pytest.approx(0.96, abs=1e-6)
    assert told["similar_from"] == 0.8


def test_alias_preview_says_that_there_are_no_vectors(folder: Path) -> None:
    told = run_canon(folder, "alias-preview", "--session", "demo", "--similar", "--json").json
    assert told["warnings"] == ["the session has no vectors; nothing is suggested by meaning"]


# -- what programs count on, and what goes wrong ---------------------------------------------------


def shape_of(value: Any) -> Any:
    """A value with every leaf replaced by its type; of a list, its first item stands for all."""
    if isinstance(value, dict):
        return {name: shape_of(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape_of(item) for item in value[:1]]
    return type(value).__name__


def shapes(folder: Path) -> dict[str, Any]:
    def told(*words: str) -> Any:
        return shape_of(run_canon(folder, *words, "--session", "marked", "--json").json)

    return {
        "dry-run": told("dry-run"),
        "inspect": told("inspect", "session store"),
        "suspected": told("suspected"),
        "alias-preview": told("alias-preview"),
    }


def test_fields_of_every_subcommand_are_the_documented_ones(folder: Path) -> None:
    """A change here changes what other people's programs read: look at the difference twice."""
    assert shapes(folder) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def failed(told: Told, code: int, words: str) -> bool:
    return told.code == code and told.out == "" and words in told.err


def test_refusals_say_what_is_wrong_and_end_with_the_usual_codes(
    folder: Path, tmp_path: Path
) -> None:
    absent = run_canon(folder, "dry-run", "--session", "nobody")
    assert failed(absent, 1, "lambo canon dry-run: no session 'nobody' [session_not_found]")
    nothing = run_canon(folder, "inspect", "no such thing", "--session", "demo")
    assert failed(nothing, 1, "[concept_not_found]")
    assert failed(run_canon(folder), 2, "SUBCOMMAND")
    both = run_canon(folder, "dry-run", "--session", "demo", "--from", "x.json")
    assert failed(both, 2, "not allowed with")
    twice = run_canon(folder, "dry-run", "--session", "demo", "--session", "near")
    assert failed(twice, 2, "may be given only once")
    threshold = run_canon(folder, "dry-run", "--min-distinct", "1")
    assert failed(threshold, 2, "unrecognized arguments")
    assert failed(run_canon(folder, "dry-run", "--from", "nowhere.json"), 2, "[usage]")
    broken = tmp_path / "broken.json"
    for text, words in (("{", "is not JSON"), ('{"a": 1}', "is no snapshot of a session")):
        broken.write_text(text, encoding="utf-8")
        assert failed(run_canon(folder, "dry-run", "--from", str(broken)), 2, words)
    unread = run_canon(tmp_path / "none", "suspected")
    assert failed(unread, 1, "has a server of this version run there? [store_unavailable]")
    ram = run_canon(folder, "suspected", LAMBO_STORE="memory")
    assert failed(ram, 1, "keeps sessions in memory only")


def test_a_session_is_read_while_its_server_runs(lambo: CommandLine) -> None:
    assert lambo("derive", "--concept", "user schema:entity").code == 0
    words = ("--session", lambo.session, "--json")
    told = run_canon(lambo.server.data_dir, "inspect", "user schema", *words).json
    assert told["state"]["server"] == "running"
    assert told["state"]["concepts"] == 1
    served = lambo("inspect", "user schema", "--json").json["admission"]
    here = {name: value for name, value in told["admission"].items() if name != "supports"}
    assert here == served
