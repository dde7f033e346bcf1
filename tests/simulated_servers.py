"""Servers that share one store, are killed, paused and cut off from it, and their clients.

Everything of the service is real: hosts, sessions, heartbeats, retries and the committer's
algorithm. Simulated are time, the committer's thread (its steps are taken one by one) and the
store's connection, which fails by the seed. Nothing here judges; see `durability_auditor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar, cast

from hosting import statement
from lambo_site.wiring import build_readers
from memory.engine.config import Config
from memory.engine.errors import (
    IdempotencyConflict,
    LamboError,
    LeaseHeld,
    LeaseLost,
    RejectedByStore,
    SessionReloaded,
)
from memory.engine.mutations import Group
from memory.engine.ports import GraphStore, SessionBatch, StoreRejected, StoreTransient
from memory.engine.requests import Caller
from memory.service.committer import Committer, Settled
from memory.service.host import SessionHost
from memory.service.measures import Measures
from memory.service.replies import Reply
from memory.testing import InMemoryStore, ManualClock, SequentialIds

T = TypeVar("T")

SESSIONS: Final = ("alpha", "beta")
SERVERS: Final = ("server-1", "server-2")
CLIENTS: Final = 6
WRITES: Final = 5
ATTEMPTS: Final = 12
POISON: Final = "poison"
"""A statement with this word is refused by the store for good."""
CONFIG: Final = Config(
    lease_ttl_seconds=9.0,
    heartbeat_seconds=3.0,
    away_after_seconds=1.0,
    outcome_unknown_after_seconds=4.0,
    close_deadline_seconds=10.0,
)
STORED_NOTHING: Final = (LeaseLost, SessionReloaded, LeaseHeld)
"""Errors that say that nothing was stored."""

_server: ContextVar[Server | None] = ContextVar("server", default=None)


class Killed(BaseException):
    """The process is gone; what it was doing is not."""


@dataclass(eq=False)
class Write:
    """What a client wants kept, and what it was told of each attempt."""

    session: str
    agent: str
    key: str
    text: str
    told: list[str] = field(default_factory=list)
    """`kept`, `nothing stored`, `refused` for good, or `unknown`."""
    under_way: int = 0
    """Attempts that have not been answered."""
    interactions: set[str] = field(default_factory=set)
    """Ids in the answers that said that it is kept."""

    @property
    def is_acknowledged(self) -> bool:
        return "kept" in self.told


@dataclass(eq=False)
class Server:
    """One process: alive until it is killed. `paused_until` is when it gets to run again."""

    name: str
    host: SessionHost | None = None
    is_dead: bool = False
    paused_until: float = 0.0
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


class World:
    """One run by one seed; `play` it once."""

    def __init__(self, seed: int, look: Callable[[World], Iterable[str]]) -> None:
        """`look` finds faults that may have gone by the end; it is asked now and then."""
        self.random = Random(seed)
        self._look = look
        self.seen: list[str] = []
        """What `look` found on the way."""
        self.clock = ManualClock()
        self.store = InMemoryStore(self.clock)
        self.servers: dict[str, Server] = {}
        self.writes: list[Write] = []
        self.is_calm = False
        self.bugs: list[BaseException] = []
        """What no simulated fault explains."""
        self._away_until = 0.0
        self._processes = 0

    def draw_wait(self) -> float:
        return self.random.random() * 0.02

    def chance(self, share: float) -> bool:
        return not self.is_calm and self.random.random() < share

    async def play(self) -> None:
        """Let the clients write while servers fail; then let everything heal."""
        asyncio.get_running_loop().set_task_factory(_assign_to_server)
        for name in SERVERS:
            await self._start(name)
        beside = [asyncio.create_task(work) for work in (self._make_trouble(), self._look_on())]
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))
        for task in beside:
            task.cancel()
        await self.heal()

    async def heal(self) -> None:
        """No more faults; every server runs, and holds what it has to hold."""
        self.is_calm, self._away_until = True, 0.0
        for server in list(self.servers.values()):
            server.paused_until = 0.0
        await asyncio.sleep(2 * CONFIG.lease_ttl_seconds)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(0.3)
            self.seen += self._look(self)

    # -- servers ----------------------------------------------------------------------------------

    async def _start(self, name: str) -> None:
        server = Server(name)
        self._processes += 1
        host = SessionHost(
            cast(GraphStore, StoreLine(self, server)),
            node_id=name,
            endpoint=f"http://{name}",
            config=CONFIG,
            readers=build_readers(CONFIG),
            clock=self.clock,
            ids=SequentialIds(self._processes),
            jobs=(),
            ticks=False,
        )
        self.servers[name] = server
        await self.on(server, host.start())
        server.host = host

    def on(self, server: Server, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have a server do something; the task is cancelled when it is killed."""
        token = _server.set(server)
        try:
            return asyncio.create_task(work)
        finally:
            _server.reset(token)

    def kill(self, server: Server) -> None:
        """SIGKILL: nothing of it runs any more, and nothing it holds is given back."""
        server.is_dead = True
        for task in server.tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _make_trouble(self) -> None:
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 1.5))
            server = self.servers[self.random.choice(SERVERS)]
            match self.random.choice(["kill", "pause", "pause", "away", "none"]):
                case "kill":
                    self.kill(server)
                case "pause":
                    longest = 2 * CONFIG.lease_ttl_seconds
                    server.paused_until = self.clock.monotonic() + self.random.random() * longest
                case "away":
                    self._away_until = self.clock.monotonic() + self.random.random() * 6
            for name, held in list(self.servers.items()):
                if held.is_dead and self.random.random() < 0.7:
                    await self._start(name)

    # -- the store, as a server reaches it --------------------------------------------------------

    def reach_store(self, server: Server, method: str, call: Callable[[], T]) -> T:
        """One call over a connection that may break before or after the store has acted."""
        if server.is_dead:
            raise StoreTransient("this process is gone")
        if self.clock.monotonic() < self._away_until:
            raise StoreTransient("the store is away")
        if method == "commit" and self.chance(0.05):
            self._kill_in_commit(server, call)
        if self.chance(0.04):
            raise StoreTransient(f"broken before {method}")
        result = call()
        if self.chance(0.04):
            raise StoreTransient(f"broken after {method}")
        return result

    def _kill_in_commit(self, server: Server, call: Callable[[], object]) -> None:
        """The process dies; its statement may be lost, be carried out, or arrive much later."""
        match self.random.choice(["lost", "done", "late", "late"]):
            case "done":
                call()
            case "late":
                asyncio.get_running_loop().call_later(self.random.random() * 8, call)
        self.kill(server)
        raise Killed

    # -- clients ----------------------------------------------------------------------------------

    async def _client(self, number: int) -> None:
        for turn in range(WRITES):
            text = f"fact number{number}x{turn}"
            if self.random.random() < 0.1:
                text = f"{text} {POISON}"
            session = self.random.choice(SESSIONS)
            write = Write(session, f"agent-{number}", f"key-{number}-{turn}", text)
            self.writes.append(write)
            for _ in range(ATTEMPTS):
                if not await self._attempt(write):
                    break
                await asyncio.sleep(self.random.random() * 1.5)
            await asyncio.sleep(self.random.random() * 0.1)

    async def _attempt(self, write: Write) -> bool:
        """Send a write to some server; whether it should be sent again under its key."""
        alive = [server for server in self.servers.values() if not server.is_dead and server.host]
        if not alive:
            return True
        calls = [self._call(self.random.choice(alive), write)]
        if self.chance(0.1):  # a proxy that sends twice
            calls.append(self._call(self.random.choice(alive), write))
        return all(await asyncio.gather(*calls))

    async def _call(self, server: Server, write: Write) -> bool:
        assert server.host is not None
        request = statement(write.text, f"all of {write.session}")
        caller = Caller(write.agent, write.key)
        work = server.host.write(write.session, lambda m: m.derive(request, caller), create=True)
        task = self.on(server, work)
        write.under_way += 1
        patience = 30.0 if self.is_calm else self.random.choice([0.5, 3.0, 20.0])
        await asyncio.wait([task], timeout=patience)
        write.under_way -= 1
        told = self._outcome(task, write)
        write.told.append(told)
        self.seen += self._look(self)
        return told not in ("kept", "refused")

    def _outcome(self, task: asyncio.Task[Reply], write: Write) -> str:
        """What a client knows: of a server that was killed, or takes too long, nothing."""
        if not task.done():
            task.cancel()
            return "unknown"
        if task.cancelled():
            return "unknown"
        error = task.exception()
        if error is None:
            write.interactions.add(str(task.result().structured["interaction_id"]))
            return "kept"
        if not isinstance(error, LamboError) or isinstance(error, IdempotencyConflict):
            self.bugs.append(error)
        if isinstance(error, RejectedByStore):
            return "refused"
        return "nothing stored" if isinstance(error, STORED_NOTHING) else "unknown"


class StoreLine:
    """A server's connection to the store."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server

    def __getattr__(self, method: str) -> Callable[..., Any]:
        inner = getattr(self._world.store, method)
        return lambda *args, **named: self._world.reach_store(
            self._server, method, lambda: inner(*args, **named)
        )

    def commit(
        self, batches: Sequence[SessionBatch], *, node_id: str, ttl_seconds: float
    ) -> frozenset[str]:
        """As the store's, which takes no poison."""
        groups = [group for batch in batches for group in batch.groups]
        if any(map(_is_poisoned, groups)):
            raise StoreRejected("the store takes no poison")
        return self._world.reach_store(
            self._server,
            "commit",
            lambda: self._world.store.commit(batches, node_id=node_id, ttl_seconds=ttl_seconds),
        )

    def close(self) -> None:
        """Others use the store too."""


def _is_poisoned(group: Group) -> bool:
    return group.call is not None and POISON in group.call.arguments


def _assign_to_server(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any] | Generator[Any, None, Any]
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop)
    server = _server.get()
    if server is not None:
        server.tasks.add(task)
        task.add_done_callback(server.tasks.discard)
    return task


class SteppedCommitter:
    """In the place of `CommitterThread`: the same committer, one step at a time, on the loop."""

    def __init__(
        self,
        store: GraphStore,
        *,
        node_id: str,
        config: Config,
        clock: ManualClock,
        on_settled: Callable[[Sequence[Settled]], None],
        on_failure: Callable[[], None],
        measures: Measures,
    ) -> None:
        assert isinstance(store, StoreLine)
        server = _server.get()
        assert server is not None
        self._world, self._server, self._clock = store._world, server, clock
        self._config, self._on_settled, self._on_failure = config, on_settled, on_failure
        self.committer = Committer(
            cast(GraphStore, store),
            node_id=node_id,
            config=config,
            clock=clock,
            deliver=self._deliver,
            measures=measures,
        )
        self._handed: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self._is_stopping = False
        self.has_failed = False
        self._task = asyncio.create_task(self._run())

    def submit(self, group: Group, incarnation: int) -> None:
        self._hand_over(lambda: self.committer.submit(group, incarnation))

    async def run(self, job: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def carry_out() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001  # the awaiting caller gets it
                future.set_exception(error)

        self._hand_over(carry_out)
        return await future

    async def drain(self, timeout_seconds: float) -> bool:
        ends_at = self._clock.monotonic() + timeout_seconds
        while self._handed or not self.committer.is_idle:
            if self._clock.monotonic() >= ends_at:
                return False
            await asyncio.sleep(0.05)
        return True

    @property
    def is_away(self) -> bool:
        since = self.committer.unsettled_since
        return since is not None and (
            self._clock.monotonic() - since >= self._config.away_after_seconds
        )

    async def stop(self) -> None:
        self._is_stopping = True
        self._wake.set()
        await self._task

    def _hand_over(self, work: Callable[[], None]) -> None:
        self._handed.append(work)
        self._wake.set()

    def _deliver(self, settled: Sequence[Settled]) -> None:
        if not self._server.is_dead:
            asyncio.get_running_loop().call_soon(self._on_settled, settled)

    async def _run(self) -> None:
        try:
            delay: float | None = None
            while not self._is_stopping:
                await self._until_woken(delay)
                await self._until_scheduled()
                self._wake.clear()
                handed, self._handed = self._handed, []
                for work in handed:
                    work()
                delay = self.committer.step(drain=True)
        except Killed:
            return
        except Exception as error:  # noqa: BLE001  # judged by the auditor
            self.has_failed = True
            self._world.bugs.append(error)
            self._on_failure()

    async def _until_woken(self, delay: float | None) -> None:
        if delay != 0.0:
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _until_scheduled(self) -> None:
        """A thread runs when the system lets it: after a moment, or when a pause is over."""
        await asyncio.sleep(self._world.draw_wait())
        while self._clock.monotonic() < self._server.paused_until:  # noqa: ASYNC110  # as told then
            await asyncio.sleep(self._server.paused_until - self._clock.monotonic())
