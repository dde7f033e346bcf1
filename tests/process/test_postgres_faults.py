"""What befalls a database server under load, and two servers on one database.

Writers send each statement under a key of its own until it is acknowledged, through whatever is
done to the connections, to PostgreSQL or to a server. In the end each is there, once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine_database import POSTGRES
from postgres_server import PostgresServer, own_server, query, shared_server
from serving import HttpClient, eventually, rows, serving

OUTAGE_SECONDS = float(os.environ.get("OUTAGE_SECONDS") or 3)
"""How long a database stays away after the server has noticed."""
WRITERS = 6
SESSION = "hot"
RETRIED = {"outcome_unknown", "store_unavailable", "session_reloaded", "session_closed"}
CHAIN_KEY = "the chain key of two servers, the same on both"
SHORT_LEASE = {"LAMBO_LEASE_TTL_SECONDS": "3", "LAMBO_HEARTBEAT_SECONDS": "0.5"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=[POSTGRES])
def server_of_database(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A database server that the test may end."""
    with own_server() as server:
        yield server


@pytest.fixture(params=[POSTGRES])
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an empty database of the run's server."""
    name = shared_server().create_database()
    yield name
    shared_server().drop_database(name)


def name_database(folder: Path, url: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "lambo.toml").write_text(f'[store]\nurl = "{url}"\n')
    return folder


@dataclass
class Writers:
    """Threads that write until they are told to end; what was acknowledged and what was refused."""

    url: str
    acknowledged: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unexpected: list[object] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def writing(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._run, args=(n,)) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def _run(self, writer: int) -> None:
        with HttpClient(self.url) as client:
            number = 0
            while not self._is_over.is_set():
                key = f"w{writer}n{number}"
                number += 1
                while (answer := client.derive(SESSION, f"statement {key}", key=key)).code:
                    self.refused[answer.code] += 1
                    if answer.code not in RETRIED:
                        self.unexpected.append(answer)
                    if self.unexpected or self._is_over.is_set():
                        return
                    self._is_over.wait(0.05)
                self.acknowledged.append(key)

    def wait_for(self, more: int) -> None:
        """Until so many more writes are acknowledged."""
        goal = len(self.acknowledged) + more
        eventually(lambda: len(self.acknowledged) >= goal or bool(self.unexpected), "writes go on")
        assert self.unexpected == []


def check_each_is_there_once(data_dir: Path, writers: Writers) -> None:
    contents = Counter(
        content
        for (content,) in rows(
            data_dir, "SELECT content FROM lambo_concept WHERE session_id = ?", SESSION
        )
    )
    receipts = Counter(
        key
        for (key,) in rows(data_dir, "SELECT key FROM lambo_receipt WHERE session_id = ?", SESSION)
    )
    acknowledged = set(writers.acknowledged)
    missing = {key for key in acknowledged if not contents[f"statement {key}"]}
    doubled = [content for content, count in contents.items() if count > 1]
    print(
        f"{len(acknowledged)} acknowledged, {len(missing)} missing, {len(doubled)} doubled;"
        f" refused: {dict(writers.refused)}"
    )
    assert (missing, doubled) == (set(), [])
    assert set(receipts.values()) == {1}
    assert acknowledged <= receipts.keys()
    interactions = rows(
        data_dir, "SELECT id, previous_id FROM lambo_interaction WHERE session_id = ?", SESSION
    )
    assert len(interactions) == len(receipts)
    assert len({previous for _, previous in interactions}) == len(interactions)


def test_connections_cut_in_the_middle_of_batches_lose_and_double_nothing(
    database: str, tmp_path: Path
) -> None:
    name_database(tmp_path, shared_server().url(database))
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        writers = Writers(server.url)
        with writers.writing():
            for _ in range(12):
                writers.wait_for(15)
                assert shared_server().cut_connections(database, application="lambo")
            writers.wait_for(15)
        assert client.find(SESSION, f"statement {writers.acknowledged[-1]}")
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
        assert "Traceback" not in server.log
    check_each_is_there_once(server.data_dir, writers)


@pytest.mark.parametrize("way", ["stopped", "killed"])
def test_a_database_that_is_away_loses_and_doubles_nothing_and_reads_go_on(
    way: str, server_of_database: PostgresServer, tmp_path: Path
) -> None:
    name = server_of_database.create_database()
    name_database(tmp_path, server_of_database.url(name))
    with serving(tmp_path) as server, HttpClient(server.url) as client:
        writers = Writers(server.url)
        with writers.writing():
            writers.wait_for(30)
            known = writers.acknowledged[0]
            server_of_database.stop() if way == "stopped" else server_of_database.kill()
            # Who waits is told that nothing is known; who comes later, to come again.
            eventually(
                lambda: client.derive(SESSION, "late").code == "store_unavailable",
                "new writes are refused",
            )
            assert client.find(SESSION, f"statement {known}")
            threading.Event().wait(OUTAGE_SECONDS)
            assert client.find(SESSION, f"statement {known}")
            before = len(writers.acknowledged)
            server_of_database.start()
            writers.wait_for(30)
            assert len(writers.acknowledged) > before
        assert client.stats(SESSION)["degraded"] is False
        stopped = server.stop()
        assert (stopped.code, stopped.says_all_committed) == (0, True)
        assert "Traceback" not in server.log
    check_each_is_there_once(server.data_dir, writers)


# -- two servers, one database -----------------------------------------------------------------


def token_of(url: str) -> int:
    ((token,),) = query(url, "SELECT token FROM lambo_lease WHERE session_id = %s", SESSION)
    return int(token)


def test_a_session_goes_to_the_second_server_when_the_first_stops_short_and_never_back_by_itself(
    database: str, tmp_path: Path
) -> None:
    url = shared_server().url(database)
    one, two = (name_database(tmp_path / name, url) for name in ("one", "two"))
    both = {"LAMBO_CHAIN_KEY": CHAIN_KEY, **SHORT_LEASE}
    with serving(one, **both) as first, serving(two, **both) as second:
        with HttpClient(first.url) as client, HttpClient(second.url) as other:
            assert client.derive(SESSION, "from the first", key="k1").status == 200
            held = other.derive(SESSION, "from the second", key="k2")
            assert held.code == "lease_held"
            before = token_of(url)
            os.kill(first.pid, signal.SIGSTOP)
            eventually(
                lambda: other.derive(SESSION, "from the second", key="k2").status == 200,
                "the second server takes the session over",
            )
            assert token_of(url) > before
            os.kill(first.pid, signal.SIGCONT)
            late = client.derive(SESSION, "from the first, too late", key="k3")
            assert late.code in {"lease_lost", "lease_held"}, late
            assert other.derive(SESSION, "from the second again", key="k4").status == 200
            assert other.stats(SESSION)["concept_count"] == 3
        contents = query(url, "SELECT content FROM lambo_concept WHERE session_id = %s", SESSION)
        assert {content for (content,) in contents} == {
            *("from the first", "from the second", "from the second again")
        }
        for server in (first, second):
            assert server.stop().code == 0
            assert "Traceback" not in server.log


def test_a_second_server_with_another_chain_key_refuses_to_start(
    database: str, tmp_path: Path
) -> None:
    url = shared_server().url(database)
    one, two = (name_database(tmp_path / name, url) for name in ("one", "two"))
    with serving(one), pytest.raises(AssertionError, match="another chain key"), serving(two):
        pass


def test_a_database_that_does_not_let_us_in_is_named_and_the_password_is_not(
    database: str, tmp_path: Path
) -> None:
    there = shared_server().url(database)
    for url, told in (
        (there.replace(database, "nowhere").replace("@", ":hunter2@"), "nowhere"),
        (there.replace(f":{shared_server().port}", ":1").replace("@", ":hunter2@"), database),
    ):
        with (
            pytest.raises(AssertionError, match=f"cannot use the database {told}") as refused,
            serving(tmp_path, LAMBO_DATABASE_URL=url),
        ):
            pass
        assert "hunter2" not in str(refused.value)
        assert "Traceback" not in str(refused.value)
