"""The server is killed under load, started again, and every acknowledged write is there once.

Eight writers at full speed over keep-alive connections. KILL_ROUNDS sets the number of rounds, and
KILL_SEED repeats a run's moments; what is measured is printed, and judged by a person.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from serving import READY_SECONDS, HttpClient, Refused, count, rows, serving

ROUNDS = int(os.environ.get("KILL_ROUNDS") or 5)
SEED = int(os.environ.get("KILL_SEED") or secrets.randbelow(1_000_000))
WRITERS = 8
SESSIONS = ("hot", "cold")
SHARED = "the concept that every write mentions"
ACKNOWLEDGED_MAX = 600
"""A round's kill comes after 1 to this many acknowledgements ..."""
PAUSE_SECONDS_MAX = 0.01
"""... and up to so much later, to meet a batch at any point of its way."""

ENDING = {"session_closed", "outcome_unknown", "store_unavailable"}
"""How a server that stops may answer a write that it does not acknowledge."""

T = TypeVar("T")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 60 * ROUNDS)]


@dataclass(frozen=True)
class Write:
    """One derive: a concept of its own, and the one that all share."""

    session: str
    agent: str
    key: str

    @property
    def content(self) -> str:
        return f"statement {self.key}"

    def send(self, client: HttpClient) -> tuple[str, bool]:
        """The failure's code, or "" when acknowledged; and whether it was a repetition."""
        answer = client.derive(self.session, self.content, SHARED, agent=self.agent, key=self.key)
        return answer.code, answer.is_replayed


@dataclass
class Load:
    """What the writers of one round were told."""

    url: str
    round_number: int
    acknowledged: list[Write] = field(default_factory=list)
    in_doubt: list[Write] = field(default_factory=list)
    refused: list[tuple[Write, str]] = field(default_factory=list)
    told: threading.Condition = field(default_factory=threading.Condition)

    def run(self, writer: int) -> None:
        """Write until the server is gone or says that it goes."""
        session = SESSIONS[writer % 4 == 3]
        with HttpClient(self.url) as client:
            for number in range(1_000_000):
                key = f"r{self.round_number}w{writer}n{number}"
                write = Write(session, f"writer-{writer}", key)
                try:
                    code, _ = write.send(client)
                except Refused:
                    self.in_doubt.append(write)
                    return
                if code:
                    self.refused.append((write, code))
                    return
                with self.told:
                    self.acknowledged.append(write)
                    self.told.notify()

    def end_after(self, number: int, pause: float, end: Callable[[], T]) -> T:
        """Let the writers run, and end the server after so many acknowledgements."""
        threads = [threading.Thread(target=self.run, args=(n,)) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        with self.told:
            enough = self.told.wait_for(
                lambda: len(self.acknowledged) >= number, timeout=READY_SECONDS
            )
        threading.Event().wait(pause)
        ended = end()
        for thread in threads:
            thread.join()
        assert enough, f"{len(self.acknowledged)} acknowledged; refused: {self.refused}"
        return ended


def audit(data_dir: Path, writes: dict[str, Write]) -> set[str]:
    """The keys of all writes that are stored; fails unless each is there whole, and once.

    `writes` holds everything that was ever sent: nothing else may be there.
    """
    stored: set[str] = set()
    for session in SESSIONS:
        receipts = rows(
            data_dir, "SELECT key, agent_id, reply FROM lambo_receipt WHERE session_id = ?", session
        )
        concepts = rows(
            data_dir,
            "SELECT content, id, origin_interaction FROM lambo_concept WHERE session_id = ?",
            session,
        )
        interactions = {
            row[0]: row[1]
            for row in rows(
                data_dir, "SELECT id, agent_id FROM lambo_interaction WHERE session_id = ?", session
            )
        }
        derived = Counter(
            rows(
                data_dir,
                "SELECT source, target FROM lambo_edge"
                " WHERE session_id = ? AND edge_type = 'Derives'",
                session,
            )
        )
        contents = Counter(row[0] for row in concepts)
        assert set(contents.values()) <= {1}
        id_by_content = {content: (concept, origin) for content, concept, origin in concepts}
        whole: set[str] = set()
        expected_edges = Counter[tuple[str, str]]()
        for key, agent, reply in receipts:
            interaction = json.loads(reply)["structured"]["interaction_id"]
            write = writes[key]
            assert (write.session, write.agent) == (session, agent)
            assert interactions[interaction] == agent
            concept, origin = id_by_content[write.content]
            assert origin == interaction
            expected_edges.update([(interaction, concept), (interaction, id_by_content[SHARED][0])])
            whole.add(key)
        # No interaction, concept or edge without its receipt: a write is there or it is not.
        assert len(interactions) == len(receipts) == len(whole)
        assert set(contents) - {SHARED} == {writes[key].content for key in whole}
        assert derived == expected_edges
        (lease,) = rows(data_dir, "SELECT position FROM lambo_lease WHERE session_id = ?", session)
        # What the server does by itself takes positions of its own, between and after the writes.
        positions = [
            position
            for (position,) in rows(
                data_dir, "SELECT position FROM lambo_receipt WHERE session_id = ?", session
            )
        ]
        assert len(set(positions)) == len(whole)
        assert max(positions) <= lease[0]
        stored |= whole
    return stored


def check_api(client: HttpClient, data_dir: Path, acknowledged: list[Write]) -> None:
    """What the server says agrees with the tables, and it finds what it acknowledged."""
    for session in SESSIONS:
        stats = client.stats(session)
        assert stats["concept_count"] == count(data_dir, "concept", session)
        assert stats["interaction_count"] == count(data_dir, "interaction", session)
        assert stats["edge_count"] == count(data_dir, "edge", session)
    last = {write.agent: write for write in acknowledged}
    for write in last.values():
        assert client.find(write.session, write.content)
        receipt = client.receipt(write.session, write.key, agent=write.agent)
        assert (receipt.status, receipt.body["state"]) == (200, "committed")


def repeat(client: HttpClient, writes: list[Write], stored: set[str]) -> None:
    """Send writes again under their keys, twice: one effect each, whether it was there or not."""
    for write in writes:
        assert write.send(client) == ("", write.key in stored)
        assert write.send(client) == ("", True)


@pytest.fixture
def moments() -> random.Random:
    print(f"\nKILL_SEED={SEED}, {ROUNDS} rounds, {WRITERS} writers")
    return random.Random(SEED)


def test_acknowledged_writes_are_there_when_the_server_was_killed_under_load(
    folder: Path, moments: random.Random
) -> None:
    sent: dict[str, Write] = {}
    acknowledged: list[Write] = []
    with ExitStack() as running:
        server = running.enter_context(serving(folder))
        for round_number in range(1, ROUNDS + 1):
            load = Load(server.url, round_number)
            number = moments.randint(1, ACKNOWLEDGED_MAX)
            load.end_after(number, moments.uniform(0, PAUSE_SECONDS_MAX), server.kill)
            running.close()
            assert load.refused == []
            assert len(load.in_doubt) == WRITERS
            assert "Traceback" not in server.log
            sent |= {write.key: write for write in (*load.acknowledged, *load.in_doubt)}
            acknowledged += load.acknowledged

            began = time.monotonic()
            server = running.enter_context(serving(folder))
            with HttpClient(server.url) as client:
                check_api(client, server.data_dir, load.acknowledged)
                answered = time.monotonic() - began
                stored = audit(server.data_dir, sent)
                missing = {write.key for write in acknowledged} - stored
                landed = sum(write.key in stored for write in load.in_doubt)
                print(
                    f"round {round_number}: {len(load.acknowledged)} acknowledged, "
                    f"{len(missing)} missing; {len(load.in_doubt)} in flight, {landed} landed; "
                    f"ready after {server.ready_seconds:.2f} s, all asked after {answered:.2f} s"
                )
                assert missing == set()
                repeat(client, load.in_doubt, stored)
                acknowledged += load.in_doubt
                assert audit(server.data_dir, sent) == set(sent)
                check_api(client, server.data_dir, load.in_doubt)


def test_acknowledged_writes_are_there_when_the_server_was_told_to_stop_under_load(
    folder: Path, moments: random.Random
) -> None:
    sent: dict[str, Write] = {}
    acknowledged: list[Write] = []
    with ExitStack() as running:
        server = running.enter_context(serving(folder))
        for round_number in range(1, ROUNDS + 1):
            load = Load(server.url, round_number)
            number = moments.randint(1, ACKNOWLEDGED_MAX)
            stopped = load.end_after(number, moments.uniform(0, PAUSE_SECONDS_MAX), server.stop)
            running.close()
            unsure = [*load.in_doubt, *(write for write, _ in load.refused)]
            sent |= {write.key: write for write in (*load.acknowledged, *unsure)}
            acknowledged += load.acknowledged
            assert stopped.code == 0, server.log
            assert stopped.says_all_committed
            assert {code for _, code in load.refused} <= ENDING
            assert "Traceback" not in server.log

            server = running.enter_context(serving(folder))
            with HttpClient(server.url) as client:
                stored = audit(server.data_dir, sent)
                missing = {write.key for write in acknowledged} - stored
                print(
                    f"round {round_number}: {len(load.acknowledged)} acknowledged, "
                    f"{len(missing)} missing; refused: "
                    f"{dict(Counter(code for _, code in load.refused))}, cut off: "
                    f"{len(load.in_doubt)}, {sum(w.key in stored for w in load.in_doubt)} landed; "
                    f"stopped in {stopped.seconds:.2f} s, "
                    f"ready after {server.ready_seconds:.2f} s"
                )
                assert missing == set()
                for write, code in load.refused:
                    assert code == "outcome_unknown" or write.key not in stored
                repeat(client, unsure, stored)
                acknowledged += unsure
                assert audit(server.data_dir, sent) == set(sent)
                check_api(client, server.data_dir, unsure)
