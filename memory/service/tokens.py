"""The tokens of a server: recognised on every call, made and revoked by operators.

Owns the copy of all tokens in RAM, the pace of each, and the times of last use, which are written
together and seldom. Refuses to decide what a token allows; that is `memory.engine.rights`.

Invariant: a token revoked here opens nothing from the moment it is written, one revoked by another
process nothing after `FRESH_SECONDS`: a copy older than that answers nobody, also when the store is
away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from memory.engine.audit_chain import SealedAct
from memory.engine.errors import (
    InvalidArgument,
    RateLimited,
    StoreUnavailable,
    TokenNotFound,
    Unauthenticated,
)
from memory.engine.ports import Clock, IdSource, StoreRejected, StoreTransient
from memory.engine.requests import Caller
from memory.engine.rights import Rights
from memory.engine.server_acts import told_of_token
from memory.engine.times import SECOND, Micros, format_rfc3339
from memory.engine.tokens import (
    DrawnToken,
    TokenRecord,
    TokenRequest,
    TokenStore,
    check_token_id,
    digest_of,
    id_of,
    opens,
    token_ages,
)
from memory.engine.types import AuditKind
from memory.service.audit_keeper import UNSEALED, AuditKeeper
from memory.service.replies import Reply

log = logging.getLogger("lambo.tokens")
T = TypeVar("T")

FRESH_SECONDS: Final = 4.0
"""How old the copy in RAM may be."""
TOKENS_MAX: Final = 1_000
"""Tokens that are kept; all of them are in RAM."""
DEAD_DAYS: Final = 30
"""How long a dead token stays in the list, and longer if it is its agent's oldest."""
USE_SECONDS: Final = 60.0
"""Between two writings of the times of last use."""
CALLS_PER_SECOND: Final = 500
RETRY_SECONDS: Final = 1.0

_REFUSED: Final = "a valid token is needed: Authorization: Bearer lambo_..."

OnWriter = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking call on the one thread that writes."""


class TokenKeeper:
    """All tokens of one store, in one process. Use it on one event loop."""

    def __init__(
        self,
        store: TokenStore,
        *,
        clock: Clock,
        ids: IdSource,
        draw: Callable[[], DrawnToken],
        on_writer: OnWriter,
        audit: AuditKeeper = UNSEALED,
        calls_per_second: float = CALLS_PER_SECOND,
        names_are_proven: bool = True,
    ) -> None:
        """Without `names_are_proven` callers may go by any name: no token's age is told."""
        self._names_are_proven = names_are_proven
        self._store = store
        self._clock = clock
        self._ids = ids
        self._audit = audit
        self._draw = draw
        self._on_writer = on_writer
        self._calls_per_second = calls_per_second
        self._records: dict[str, TokenRecord] = {}
        self._read_at = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None
        self._changes = 0
        self._paces: dict[str, _Pace] = {}
        self._used: dict[str, Micros] = {}
        self._noted_at = clock.monotonic()
        self._noting: asyncio.Task[None] | None = None

    # -- calls ------------------------------------------------------------------------------------

    async def authenticate(self, text: str, *, is_call: bool = True) -> Rights:
        """What the holder of a token may do; only a call counts against its rate.

        Raises `Unauthenticated`, the same for every cause, `RateLimited`, or `StoreUnavailable`
        when nothing fresh is known of any token.
        """
        token_id = id_of(text)
        if token_id is None:
            raise unauthenticated()
        await self._be_fresh()
        record = self._records.get(token_id)
        now = self._clock.now()
        if not opens(record, text, now) or record is None:
            raise unauthenticated()
        if is_call:
            self._pace(token_id)
        self._used[token_id] = now
        self._note_uses()
        return record.rights

    def _pace(self, token_id: str) -> None:
        now = self._clock.monotonic()
        pace = self._paces.get(token_id)
        if pace is None:
            pace = self._paces[token_id] = _Pace(self._calls_per_second, now)
        wait = pace.take(now)
        if wait > 0:
            raise RateLimited(
                f"over {self._calls_per_second:g} calls a second with this token",
                retry_after_seconds=wait,
            )

    # -- acts of operators ------------------------------------------------------------------------

    async def create(self, request: TokenRequest, caller: Caller) -> Reply:
        """Make a token. Its secret is in the reply and nowhere else, then or later."""
        await self._be_fresh()
        now = self._clock.now()
        if len(self._records) >= TOKENS_MAX:
            before = now - DEAD_DAYS * 86_400 * SECOND
            await self._write(lambda: self._store.drop_dead_tokens(before=before))
            await self._reload()
        if len(self._records) >= TOKENS_MAX:
            raise InvalidArgument("name", f"at most {TOKENS_MAX} tokens are kept; revoke some")
        drawn = self._draw()
        expires = request.expires_seconds
        record = TokenRecord(
            drawn.token_id,
            request.name,
            request.agent_id,
            request.scopes,
            request.patterns,
            request.may_act_for_others,
            digest_of(drawn.text),
            created_at=now,
            expires_at=None if expires is None else now + expires * SECOND,
        )
        act = self._seal(AuditKind.TOKEN_CREATE, record, now, caller)
        head = await self._write(lambda: self._store.put_token(record, act))
        self._changes += 1
        self._records[record.token_id] = record
        await self._audit.anchor_server(head)
        log.info("token %s (%r) made by %r", record.token_id, record.name, caller.agent_id)
        return _reply(
            f"made token {record.token_id} for agent '{record.agent_id}'; it is shown this once:\n"
            f"{drawn.text}",
            summary=f"made token {record.token_id} for agent '{record.agent_id}'",
            token=drawn.text,
            **_wire(record, now),
        )

    async def list_all(self) -> Reply:
        """Every token that is kept, without its secret."""
        await self._reload()
        now = self._clock.now()
        rows = [
            _wire(replace(record, last_used_at=self._last_use(record)), now)
            for record in self._records.values()
        ]
        lines = [
            f"{row['id']}  {row['state']:<7}  {row['name']}  agent {row['agent']}  "
            f"{','.join(row['scopes'])}  {' '.join(row['sessions'])}"
            for row in rows
        ]
        return _reply("\n".join(lines) or "no tokens", summary=f"{len(rows)} tokens", tokens=rows)

    async def revoke(self, token_id: str, caller: Caller) -> Reply:
        """Make a token open nothing any more; `revoked` is false if it opened nothing before."""
        check_token_id(token_id)
        await self._reload()
        record = self._records.get(token_id)
        if record is None:
            raise TokenNotFound("no token has that id", id=token_id)
        is_new = record.revoked_at is None
        if is_new:
            now = self._clock.now()
            act = self._seal(AuditKind.TOKEN_REVOKE, record, now, caller)
            head = await self._write(lambda: self._store.revoke_token(token_id, at=now, act=act))
            self._changes += 1
            self._records[token_id] = replace(record, revoked_at=now)
            await self._audit.anchor_server(head)
            log.info("token %s (%r) revoked by %r", token_id, record.name, caller.agent_id)
        said = f"revoked token {token_id}" if is_new else f"token {token_id} was revoked before"
        return _reply(said, summary=said, id=token_id, revoked=is_new)

    def _seal(self, kind: AuditKind, record: TokenRecord, now: Micros, caller: Caller) -> SealedAct:
        detail, actor = told_of_token(record), caller.agent_id
        return self._audit.seal(kind, ids=self._ids, at=now, actor=actor, detail=detail)

    async def count_live(self) -> int:
        """How many tokens open something now."""
        await self._reload()
        now = self._clock.now()
        return sum(record.is_live(now) for record in self._records.values())

    async def read_ages(self) -> dict[str, Micros]:
        """Since when each agent that has a live token is known: when its first one was made.

        Empty where names are only believed: whoever goes by a name need not have its token.
        """
        if not self._names_are_proven:
            return {}
        await self._be_fresh()
        return token_ages(self._records.values(), self._clock.now())

    async def close(self) -> None:
        """Write what is left to write; a store that is away loses times of use and nothing else."""
        if self._noting is not None:
            await asyncio.gather(self._noting, return_exceptions=True)
        await self._write_uses()

    # -- the copy in RAM --------------------------------------------------------------------------

    async def _be_fresh(self) -> None:
        """Read the tokens again if they are old; calls that come meanwhile share one reading."""
        if self._clock.monotonic() - self._read_at <= FRESH_SECONDS:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._reload())
        # A caller who hangs up must not end a reading that others wait for.
        await asyncio.shield(self._refreshing)

    async def _reload(self) -> None:
        while True:
            asked_at, changes = self._clock.monotonic(), self._changes
            try:
                records = await asyncio.to_thread(self._store.load_tokens)
            except (StoreTransient, StoreRejected) as error:
                raise _unavailable() from error
            # A change in between may be missing from what was read.
            if changes == self._changes:
                break
        made = self._records
        self._records = {record.token_id: record for record in records}
        self._read_at = asked_at
        for token_id in made.keys() - self._records.keys():
            self._paces.pop(token_id, None)

    async def _write(self, job: Callable[[], T]) -> T:
        try:
            done: T = await self._on_writer(job)
        except (StoreTransient, StoreRejected) as error:
            log.warning("the store failed on a token: %s", error)
            raise _unavailable() from error
        return done

    # -- times of use -----------------------------------------------------------------------------

    def _last_use(self, record: TokenRecord) -> Micros | None:
        return self._used.get(record.token_id, record.last_used_at)

    def _note_uses(self) -> None:
        now = self._clock.monotonic()
        if now - self._noted_at < USE_SECONDS:
            return
        if self._noting is None or self._noting.done():
            self._noted_at = now
            self._noting = asyncio.create_task(self._write_uses())

    async def _write_uses(self) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            await self._on_writer(lambda: self._store.note_token_use(used))
        except (StoreTransient, StoreRejected, RuntimeError) as error:
            log.warning("times of use of tokens not kept: %s", error)


class _Pace:
    """A bucket of calls that fills at a steady rate and holds one second's worth."""

    __slots__ = ("_at", "_left", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._left = max(rate, 1.0)
        self._at = now

    def take(self, now: float) -> float:
        """Take one call; 0, or after how many seconds there will be one."""
        filled = self._left + (now - self._at) * self._rate
        self._left, self._at = min(max(self._rate, 1.0), filled), now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._rate


def unauthenticated() -> Unauthenticated:
    """The one answer to every caller that is not recognised."""
    return Unauthenticated(_REFUSED)


def _unavailable() -> StoreUnavailable:
    return StoreUnavailable(
        "the store did not answer for the tokens", retry_after_seconds=RETRY_SECONDS
    )


def _wire(record: TokenRecord, now: Micros) -> dict[str, Any]:
    state = "live" if record.is_live(now) else "expired" if not record.revoked_at else "revoked"
    return {
        "id": record.token_id,
        "name": record.name,
        "agent": record.agent_id,
        "scopes": sorted(record.scopes),
        "sessions": list(record.patterns),
        "may_act_for_others": record.may_act_for_others,
        "state": state,
        "created_at": format_rfc3339(record.created_at),
        "expires_at": _moment(record.expires_at),
        "last_used_at": _moment(record.last_used_at),
    }


def _moment(at: Micros | None) -> str | None:
    return None if at is None else format_rfc3339(at)


def _reply(text: str, **structured: Any) -> Reply:
    return Reply(text, {**structured, "warnings": []})
