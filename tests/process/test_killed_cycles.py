"""A server is killed in the middle of evaluations and sweeps, and started again, until all is done.

The audit trail and the statuses are one story at every start: replaying the rows gives what the
concepts say, `canon verify` proves them, and where it ends is where an undisturbed run ends.
KILL_SEED repeats a run's moments.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import secrets
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pytest_django import DjangoDbBlocker

from canon_stores import run_canon, store_snapshot
from canon_team import DAY, Team
from engine_database import engine_database
from memory.data_folder import read_runtime
from memory.engine.graph import Graph
from memory.engine.snapshot import take_snapshot
from memory.engine.times import SECOND
from memory.engine.types import ConceptType, Snapshot
from serving import Refused, RunningServer, rows, serving

SESSION = "shop"
SEED = int(os.environ.get("KILL_SEED") or secrets.randbelow(1_000_000))
KILLS = 5
PILLARS = 120
DEPENDENTS = 7
JUNK = 150
CONCEPTS = PILLARS * (DEPENDENTS + 1) + JUNK
PAUSE_SECONDS_MAX = 0.1
EVALUATIONS_MAX = 100

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def old_session() -> Snapshot:
    """Weeks of work: pillars that will all rise once swept often enough, and junk that will go."""
    began = time.time_ns() // 1_000 - 20 * DAY * SECOND
    team = Team(graph=Graph(SESSION, began), now=began)
    for number in range(JUNK):
        team.derive("cy", f"glimpse{number}", kind=ConceptType.OBSERVATION)
    pillars = [f"pillar{number}" for number in range(PILLARS)]
    for start in range(0, PILLARS, 40):
        team.derive("ann", *pillars[start : start + 40])
    for turn in range(DEPENDENTS):
        for number in range(PILLARS):
            team.derive("ben", f"work{number}x{turn}", on=[f"pillar{number}"])
        team.wait(2 * DAY)
    return take_snapshot(team.graph)


class Person:
    """A person who asks for jobs, and does not ask again when the server is gone."""

    def __init__(self, server: RunningServer) -> None:
        runtime = read_runtime(server.data_dir)
        assert runtime is not None
        self._headers = {"Lambo-Operator": runtime.operator_secret, "Lambo-User": "olga"}
        self._netloc = urlsplit(server.url).netloc

    def run(self, job: str) -> dict[str, int]:
        """What a forced run did."""
        asked = json.dumps({"job": job, "session": SESSION, "force": True})
        with closing(http.client.HTTPConnection(self._netloc, timeout=60)) as connection:
            connection.request("POST", "/api/v1/jobs", asked, self._headers)
            with connection.getresponse() as response:
                body = json.loads(response.read())
                assert response.status == 200, body
                did: dict[str, int] = body["did"]
                return did


def kill_at_work(server: RunningServer, jobs: int, seconds: float) -> None:
    """Ask for job after job, and kill the server so much after so many answers."""
    person, answered = Person(server), threading.Semaphore(0)

    def ask() -> None:
        with suppress(*Refused):
            for job in cycle(["collect", "evaluate", "evaluate"]):
                person.run(job)
                answered.release()

    asking = threading.Thread(target=ask)
    asking.start()
    enough = [answered.acquire(timeout=20) for _ in range(jobs)]
    threading.Event().wait(seconds)
    server.kill()
    asking.join()
    assert all(enough)


def check_trail(folder: Path) -> Counter[str]:
    """Replay the audit rows against what is stored; statuses, counted."""
    data = folder / "data"
    held = {
        row[0]: row[1:]
        for row in rows(
            data,
            "SELECT id, status, blast_radius, last_demotion_time FROM lambo_concept"
            " WHERE session_id = ?",
            SESSION,
        )
    }
    told: dict[str, tuple[Any, ...]] = {}
    gone: set[str] = set()
    trail = rows(
        data,
        "SELECT kind, node_id, from_status, to_status, blast_radius, sequence"
        " FROM lambo_audit_event WHERE session_id = ? ORDER BY sequence",
        SESSION,
    )
    assert [row[5] for row in trail] == list(range(1, len(trail) + 1))
    for kind, node, before, after, radius, _ in trail:
        assert node not in gone
        if kind == "collect":
            gone.add(node)
            continue
        assert kind == "transition"
        assert before == told.get(node, ("None",))[0]
        told[node] = (after, radius)
    assert gone.isdisjoint(held)
    assert len(held) + len(gone) == CONCEPTS
    for node, (status, radius, demoted) in held.items():
        assert (status, radius) == told.get(node, ("None", None))
        assert demoted is None
    verified = run_canon(data, "verify", "--json").json
    assert (verified["ok"], verified["verified"]) == (True, len(trail))
    return Counter(status for status, *_ in held.values())


def test_killed_in_its_cycles_a_server_tells_one_story_and_comes_to_the_same_end(
    tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    moments = random.Random(SEED)
    print(f"\nKILL_SEED={SEED}")
    data = tmp_path / "data"
    data.mkdir()
    with django_db_blocker.unblock(), engine_database(data) as database:
        store_snapshot(database.store(), SESSION, old_session())
        database.execute("UPDATE lambo_lease SET expires_at = 0")  # its writer is gone
    for number in range(1, KILLS + 1):
        with serving(tmp_path) as server:
            jobs, pause = moments.randint(0, 2), moments.uniform(0, PAUSE_SECONDS_MAX)
            kill_at_work(server, jobs, pause)
            assert "Traceback" not in server.log
        statuses = check_trail(tmp_path)
        print(f"kill {number}, {pause:.3f} s after {jobs} jobs: {dict(statuses)}")

    with serving(tmp_path) as server:
        person = Person(server)
        for _ in range(3):
            person.run("collect")
        for _ in range(EVALUATIONS_MAX):
            if not person.run("evaluate").get("promoted"):
                break
        statuses = check_trail(tmp_path)
        assert server.stop().code == 0
    assert statuses["Canonical"] == PILLARS
    assert set(statuses) == {"Canonical", "None"}
    assert sum(statuses.values()) == CONCEPTS - JUNK
