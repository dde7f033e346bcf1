"""Sessions of known outcome in a real store, for tests of the `canon` commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import child_environment
from memory.engine.actions import plan_action
from memory.engine.derive import plan_derive
from memory.engine.draft import Stamp
from memory.engine.embedding import EmbeddingContract
from memory.engine.graph import Graph
from memory.engine.mutations import (
    Mutation,
    PutConcept,
    PutEdge,
    PutInteraction,
    PutSynonym,
    PutVector,
)
from memory.engine.ports import GraphStore
from memory.engine.requests import DeriveRequest
from memory.engine.snapshot import take_snapshot
from memory.engine.times import SECOND, Micros
from memory.engine.types import Snapshot
from memory.testing import SequentialIds
from rest_api_scenario import SCENARIO
from session_log import SessionLog

START: Micros = 1_700_000_000 * SECOND
LADDER = {
    "user schema": "Canonical",
    "auth middleware": "Venerable",
    "handlers/users.rs": "Venerable",
    "middleware/session.rs": "Venerable",
    "middleware/ratelimit.rs": "Candidate",
    "repo/users.rs": "Candidate",
    "middleware/jwt.rs": "Candidate",
    "handlers/login.rs": "Candidate",
    "redis backend": "Candidate",
    "session store": "Candidate",
}
"""Where the scenario's concepts end, all sweeps outlived; every other one stays at None."""


def play_scenario(ids: SequentialIds | None = None) -> Graph:
    """The two-agent scenario by its script clock, all concepts having outlived three sweeps."""
    graph, ids = Graph("demo", START), ids or SequentialIds()
    for place, (agent, request) in enumerate(SCENARIO):
        stamp = Stamp(agent, START + place * 10_000, ids)
        if isinstance(request, DeriveRequest):
            graph.apply_all(plan_derive(graph, request, stamp, co_occurrence_max=10).mutations)
        else:
            graph.apply_all(plan_action(graph, request, stamp).mutations)
    for row in graph.concept_rows():
        graph.apply(PutConcept(graph.concept_at(row)._replace(gc_survived=3)))
    return graph


def store_snapshot(
    store: GraphStore,
    session: str,
    snapshot: Snapshot,
    *,
    contract: EmbeddingContract | None = None,
) -> None:
    """Commit the records of a snapshot as a session's first group."""
    log = SessionLog(store, session, contract=contract)
    assert not log.commit(list(_mutations(snapshot, contract)))


def _mutations(snapshot: Snapshot, contract: EmbeddingContract | None) -> Iterator[Mutation]:
    yield from map(PutInteraction, snapshot.interactions)
    yield from map(PutConcept, snapshot.concepts)
    yield from map(PutEdge, snapshot.edges)
    for source, target in snapshot.synonyms:
        yield PutSynonym(source, target)
    for concept, vector in snapshot.vectors:
        assert contract is not None
        yield PutVector(concept, contract.key, vector)


def scenario_snapshot() -> Snapshot:
    return take_snapshot(play_scenario())


@dataclass(frozen=True)
class Told:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def run_canon(data_dir: Path, *words: str, **variables: str) -> Told:
    """`lambo canon ...` in a process of its own."""
    env = child_environment({"LAMBO_DATA_DIR": str(data_dir), **variables})
    config = data_dir.parent / "lambo.toml"
    config.touch()
    done = subprocess.run(
        [sys.executable, "-m", "memory.cli.main", "canon", *words],
        env={**env, "LAMBO_CONFIG": str(config), "PYTHONWARNINGS": "error"},
        cwd=os.fspath(data_dir.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    return Told(done.returncode, done.stdout, done.stderr)
