"""A session as a command sees it: read whole, from the store or from a snapshot in a file.

Owns what is told of it (where from, how far, and whether a server may know more) and the
circumstances under which its concepts are judged. Reads the store through the alias that cannot
write, takes no lease and asks no server: a session that is being written to is seen as of its last
commit, in one consistent state.

Invariant: nothing is written, to the store or to a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.utils.module_loading import import_string

from canon.engine.measurements import Circumstances
from canon.engine.settings import CanonSettings, Policy
from memory.cli.verb import UsageError
from memory.data_folder import DataFolder
from memory.engine.config import Durability
from memory.engine.errors import InvalidSnapshot, SessionNotFound, StoreUnavailable
from memory.engine.graph import Graph
from memory.engine.ports import GraphStore, LoadedSession, StoreRejected, StoreTransient
from memory.engine.requests import check_session_name
from memory.engine.showing import in_passing
from memory.engine.times import Micros, format_rfc3339
from memory.engine.tokens import TokenStore, token_ages
from memory.engine.types import Snapshot
from memory.engine.wire import snapshot_from_json
from memory.store.django_store import DjangoStore
from memory.store.tokens import DjangoTokenStore
from memory.system import SystemClock

STORE: Final = "store"
BUILD_CYCLES: Final = "lambo_site.wiring.build_cycles"
"""By name, as Django's settings are: the composition root is imported by nobody."""
NAMES_UNPROVEN: Final = (
    "under quorum no agent counts here: in local mode names are not proven; a server that asks for "
    'tokens is configured with auth.mode = "tokens"'
)


@dataclass(frozen=True, slots=True)
class State:
    """Which state of a session was seen.

    `source` is `store` or the path of a file. `position` is the place in the session's log up to
    which it is committed, None for a file. `server` tells whether a server has the data folder
    open; its memory may be ahead of the store.
    """

    session: str
    source: str
    position: int | None
    interactions: int
    concepts: int
    edges: int
    latest_write_at: Micros | None
    server: str | None

    @property
    def text(self) -> str:
        """One line for people."""
        size = f"{self.concepts} concepts, {self.edges} edges, {self.interactions} interactions"
        name = in_passing(self.session)
        if self.position is None:
            return f"session '{name}' in {self.source}: {size}"
        return (
            f"session '{name}' as committed at position {self.position}: {size}; "
            f"the server is {self.server}"
        )

    def as_wire(self) -> dict[str, Any]:
        at = self.latest_write_at
        return {
            "session": self.session,
            "source": self.source,
            "position": self.position,
            "interactions": self.interactions,
            "concepts": self.concepts,
            "edges": self.edges,
            "latest_write_at": None if at is None else format_rfc3339(at),
            "server": self.server,
        }


@dataclass(frozen=True, slots=True)
class SessionRead:
    """A session, the state it was seen in, and a sentence for each row that was not usable."""

    snapshot: Snapshot
    state: State
    warnings: tuple[str, ...] = ()


def read_stored(session: str, store: GraphStore | None = None) -> SessionRead:
    """A session of the configured store.

    Raises `InvalidArgument`, `SessionNotFound`, and `StoreUnavailable` where there is no store to
    read.
    """
    check_session_name(session)
    loaded = _load(session, store or _store())
    if loaded is None:
        raise SessionNotFound(f"no session '{session}'", session=session)
    folder = DataFolder(settings.PROCESS.data_dir)
    server = "not running" if folder.find_holder() is None else "running"
    state = _state(loaded.snapshot, STORE, position=loaded.position, server=server)
    return SessionRead(loaded.snapshot, state, tuple(item.sentence for item in loaded.set_aside))


def read_file(path: Path) -> SessionRead:
    """The session in a snapshot file. Raises `UsageError`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    try:
        snapshot = snapshot_from_json(document)
    except InvalidSnapshot as error:
        raise UsageError(f"{path} is no snapshot of a session: {error.message}") from error
    return SessionRead(snapshot, _state(snapshot, str(path)))


def _store() -> GraphStore:
    if settings.PROCESS.config.durability is Durability.MEMORY:
        raise StoreUnavailable("this configuration keeps sessions in memory only; nothing to read")
    return DjangoStore()


def _load(session: str, store: GraphStore) -> LoadedSession | None:
    try:
        return store.load_session(session)
    except (StoreTransient, StoreRejected) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StoreUnavailable:
    folder = settings.PROCESS.data_dir
    return StoreUnavailable(
        f"the store in {folder} cannot be read: {error}; has a server of this version run there?"
    )


def _state(
    snapshot: Snapshot, source: str, *, position: int | None = None, server: str | None = None
) -> State:
    return State(
        session=snapshot.session_id,
        source=source,
        position=position,
        interactions=len(snapshot.interactions),
        concepts=len(snapshot.concepts),
        edges=len(snapshot.edges),
        latest_write_at=max((one.created_at for one in snapshot.interactions), default=None),
        server=server,
    )


# -- how concepts are judged -----------------------------------------------------------------------


def configured_rules() -> CanonSettings:
    """The settings by which the server of this configuration promotes."""
    rules: CanonSettings = import_string(BUILD_CYCLES)(settings.PROCESS.config).canon
    return rules


def circumstances_of(
    graph: Graph,
    rules: CanonSettings,
    *,
    tokens: Mapping[str, Micros] | None = None,
    now: Micros | None = None,
) -> Circumstances:
    """Concepts judged now, with what people confirmed of them and the ages of tokens."""
    return Circumstances(
        now=SystemClock().now() if now is None else now,
        settings=rules,
        confirmations=graph.standing.confirmations(),
        token_created_at=tokens or {},
    )


def find_token_ages(
    policies: Iterable[Policy], store: TokenStore | None = None
) -> tuple[dict[str, Micros], list[str]]:
    """Since when each agent counts by its tokens, as a server of this configuration would say.

    None where no policy asks, and none, with a warning, in local mode: there whoever goes by a name
    need not have its token. Raises `StoreUnavailable`.
    """
    if Policy.QUORUM not in policies:
        return {}, []
    if not settings.PROCESS.requires_tokens:
        return {}, [NAMES_UNPROVEN]
    return _read_token_ages(store or DjangoTokenStore()), []


def _read_token_ages(store: TokenStore) -> dict[str, Micros]:
    try:
        records = store.load_tokens()
    except (StoreTransient, StoreRejected) as error:
        raise _unreadable(error) from error
    return token_ages(records, SystemClock().now())
