"""Citations of a short name, as evidence for the ruling it is short for."""

from __future__ import annotations

import json

import numpy as np

from canon.engine.alias_preview import AliasMove, alias_preview
from canon.engine.suspicions import LISTED_MAX, find_suspicions
from canon_team import DAY, START, Team
from memory.engine.embedding import EmbeddingContract, vector_bytes
from memory.engine.graph import Graph
from memory.engine.mutations import PutEdge, PutSynonym, PutVector
from memory.engine.snapshot import take_snapshot
from memory.engine.types import Edge, EdgeType, Status

CONTRACT = EmbeddingContract("fixture", None, 2)
RULING = "sessions are stored in memory of the server process"


def team_with_names() -> Team:
    team = Team(graph=Graph("session", START, contract=CONTRACT))
    team.derive("ann", "store")
    team.rest_on("store", ["ben", "cy", "dee"], apart=DAY)
    team.derive("ann", RULING)
    team.rest_on(RULING, ["eve"], apart=DAY)
    team.survive()
    return team


def place(team: Team, content: str, degrees: float) -> None:
    """Give a concept a vector at an angle."""
    radians = np.deg2rad(degrees)
    vector = np.array([np.cos(radians), np.sin(radians)], dtype=np.float32)
    team.graph.apply(PutVector(team.id(content), CONTRACT.key, vector_bytes(vector)))


def preview(team: Team, similar: float | None = None) -> list[AliasMove]:
    return alias_preview(team.graph, team.circumstances, similar=similar)


def test_a_declared_synonym_shows_what_its_target_would_measure() -> None:
    team = team_with_names()
    team.graph.apply(PutSynonym("store", RULING))
    before = take_snapshot(team.graph)
    (move,) = preview(team)
    assert take_snapshot(team.graph) == before
    assert (move.name_content, move.ruling_content) == ("store", RULING)
    assert (move.citations, move.cosine) == (3, None)
    assert (move.before.distinct, move.before.blast_radius) == (1, 1)
    assert (move.after.distinct, move.after.blast_radius) == (4, 4)
    assert (move.next_status, move.would_pass) == (Status.CANDIDATE, True)
    assert json.loads(json.dumps(move.as_wire()))["after"]["distinct"] == 4


def test_a_ruling_that_cites_its_name_is_no_evidence_for_itself() -> None:
    team = team_with_names()
    team.derive("ann", RULING, on=["store"])
    team.wait(DAY)
    team.graph.apply(PutSynonym("store", RULING))
    (move,) = preview(team)
    assert (move.citations, move.after.blast_radius) == (3, 4)


def test_a_synonym_of_what_nobody_cites_moves_nothing() -> None:
    team = team_with_names()
    team.derive("ann", "unused")
    team.graph.apply(PutSynonym("unused", RULING))
    team.graph.apply(PutSynonym("unknown", RULING))
    assert preview(team) == []


def test_similar_names_are_suggested_on_request_with_the_nearest_ruling() -> None:
    team = team_with_names()
    other = "stores keep records on the disk drive"
    team.derive("ann", other)
    place(team, "store", 0)
    place(team, RULING, 30)
    place(team, other, 20)
    assert preview(team) == []
    (move,) = preview(team, similar=0.8)
    assert move.ruling_content == other
    assert move.cosine is not None
    assert abs(move.cosine - np.cos(np.deg2rad(20))) < 1e-6
    assert preview(team, similar=0.99) == []


def test_a_pair_that_contradict_each_other_is_never_suggested() -> None:
    team = team_with_names()
    place(team, "store", 0)
    place(team, RULING, 10)
    assert len(preview(team, similar=0.8)) == 1
    team.derive("ben", RULING, against=["store"])
    assert preview(team, similar=0.8) == []
    team.graph.apply(PutSynonym("store", RULING))
    assert preview(team) == []


def test_texts_with_other_identifiers_are_never_suggested() -> None:
    team = team_with_names()
    ruling = "store keeps sessions for 30 days"
    team.derive("ann", ruling)
    place(team, "store", 0)
    place(team, ruling, 1)
    assert preview(team, similar=0.8) == []


def test_suspected_pairs_are_listed_nearest_first_and_counted() -> None:
    team = Team()
    team.derive("ann", *(f"claim{n}" for n in range(40)))
    assert find_suspicions(team.graph).as_wire() == {"count": 0, "pairs": []}
    count = 0
    for newer in range(20):
        for older in range(20, 40):
            edge = Edge(
                team.ids.next_id(),
                team.id(f"claim{newer}"),
                team.id(f"claim{older}"),
                EdgeType.SUSPECTED_SUPERSEDES,
                0.5 + count / 1_000,
                1,
                team.now,
                team.now,
                "ann",
                "ann",
            )
            team.graph.apply(PutEdge(edge))
            count += 1
    found = find_suspicions(team.graph)
    assert (found.count, len(found.pairs)) == (400, LISTED_MAX)
    first = found.pairs[0]
    assert (first.newer_content, first.older_content) == ("claim19", "claim39")
    assert first.cosine == 0.899
    assert "claim19  may replace  claim39  (cosine 0.90)" in first.line
    assert json.loads(json.dumps(found.as_wire()))["count"] == 400
