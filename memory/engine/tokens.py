"""What a token is: its record, its text, and what may be asked for when one is made.

Owns the form `lambo_<id>_<secret>` and the digest that is stored in its place. Draws no chance and
keeps nothing: secrets come from outside and leave again once, in the reply to their making.

Invariant: no record holds a secret, and no text that is not exactly of the form has a digest looked
at.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from memory.engine import limits
from memory.engine.errors import InvalidArgument
from memory.engine.requests import check_count, check_name, check_range
from memory.engine.rights import Rights, Scope
from memory.engine.times import Micros

if TYPE_CHECKING:
    from memory.engine.audit_chain import ChainHead, SealedAct

PREFIX: Final = "lambo"
_FORM: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})")
_ID: Final = re.compile(r"[0-9a-f]{16}")
_REFUSED_IN_PATTERNS: Final = frozenset('/\\?[]{}%"<>|')
_NO_DIGEST: Final = "0" * 64

SECONDS_MAX: Final = 10 * 366 * 86_400
"""The longest life a token can be given; without one it lives until it is revoked."""
PATTERNS_MAX: Final = 16
STARS_MAX: Final = 4
"""In one pattern. More would only make matching slow."""


class DrawnToken(NamedTuple):
    """A fresh id and 256 bits of chance as base64url."""

    token_id: str
    secret: str

    @property
    def text(self) -> str:
        """What its holder sends."""
        return f"{PREFIX}_{self.token_id}_{self.secret}"


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as stored. `digest` is the SHA-256 of its text, in hexadecimal."""

    token_id: str
    name: str
    agent_id: str
    scopes: frozenset[Scope]
    patterns: tuple[str, ...]
    may_act_for_others: bool
    digest: str
    created_at: Micros
    expires_at: Micros | None = None
    revoked_at: Micros | None = None
    last_used_at: Micros | None = None

    def is_live(self, now: Micros) -> bool:
        """Whether it opens anything at this time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def rights(self) -> Rights:
        return Rights(
            self.scopes, self.patterns, self.agent_id, self.may_act_for_others, self.token_id
        )


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token to be made, checked. `expires_seconds` counts from its making; None is for ever."""

    name: str
    agent_id: str
    scopes: frozenset[Scope]
    patterns: tuple[str, ...]
    may_act_for_others: bool = False
    expires_seconds: int | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name, limits.AGENT_ID_BYTES)
        check_name("agent", self.agent_id, limits.AGENT_ID_BYTES)
        check_count("scopes", len(self.scopes), len(Scope), least=1)
        check_count("sessions", len(self.patterns), PATTERNS_MAX, least=1)
        for number, pattern in enumerate(self.patterns):
            _check_pattern(f"sessions[{number}]", pattern)
        if self.expires_seconds is not None:
            check_range("expires_seconds", self.expires_seconds, 1, SECONDS_MAX)


def _check_pattern(field: str, pattern: str) -> None:
    """Refuse a pattern that no session could match, or whose author meant another language."""
    check_name(field, pattern, limits.SESSION_NAME_BYTES)
    refused = sorted(set(pattern) & _REFUSED_IN_PATTERNS)
    if refused:
        raise InvalidArgument(field, f"{field} may not contain {' '.join(refused)}")
    if pattern.count("*") > STARS_MAX:
        raise InvalidArgument(field, f"{field} may hold at most {STARS_MAX} *", maximum=STARS_MAX)


def check_token_id(value: str) -> str:
    """The id of a token. Not an excerpt of the value: somebody may paste the whole token."""
    if not _ID.fullmatch(value):
        raise InvalidArgument("id", "id must be the 16 digits that `token list` shows")
    return value


def id_of(text: str) -> str | None:
    """The id in the text of a token; None for a text that is none."""
    form = _FORM.fullmatch(text)
    return form.group(1) if form else None


def hide_secrets(text: str) -> str:
    """The text with the secret of every token in it left out."""
    return _FORM.sub(rf"{PREFIX}_\1_[hidden]", text)


def digest_of(text: str) -> str:
    """What is stored of a token. Its 256 bits of chance need no salt and no slow hash."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def opens(record: TokenRecord | None, text: str, now: Micros) -> bool:
    """Whether `text` is the live token of a record. Takes as long when there is no record."""
    expected = _NO_DIGEST if record is None else record.digest
    is_same = hmac.compare_digest(digest_of(text), expected)
    return is_same and record is not None and record.is_live(now)


def token_ages(records: Iterable[TokenRecord], now: Micros) -> dict[str, Micros]:
    """Since when each agent that has a live token is known here.

    That is the making of the oldest token it ever had, dead ones too: an agent whose token is
    changed for a new one is the same agent.
    """
    ages: dict[str, Micros] = {}
    live = set()
    for record in records:
        known = ages.get(record.agent_id, record.created_at)
        ages[record.agent_id] = min(known, record.created_at)
        if record.is_live(now):
            live.add(record.agent_id)
    return {agent: made for agent, made in ages.items() if agent in live}


def droppable_tokens(records: Iterable[TokenRecord], *, before: Micros) -> list[str]:
    """Ids of the tokens that expired or were revoked before a time and tell nothing any more.

    The oldest of an agent stays while the agent has another one: its age is the agent's.
    """
    by_agent: dict[str, list[TokenRecord]] = {}
    for record in records:
        by_agent.setdefault(record.agent_id, []).append(record)
    dropped = []
    for held in by_agent.values():
        dead = [record.token_id for record in held if _died_before(record, before)]
        if len(dead) < len(held):
            oldest = min(held, key=lambda record: (record.created_at, record.token_id))
            dead = [token_id for token_id in dead if token_id != oldest.token_id]
        dropped += dead
    return dropped


def _died_before(record: TokenRecord, before: Micros) -> bool:
    times = (record.expires_at, record.revoked_at)
    return any(moment is not None and moment < before for moment in times)


class TokenStore(Protocol):
    """Where tokens are kept. Writes come from the one writing thread, `load` from any; all block.

    Errors are `StoreTransient` and `StoreRejected`, as for sessions.
    """

    def put_token(self, record: TokenRecord, act: SealedAct | None = None) -> ChainHead | None:
        """Keep a new token, and with it the audit row of its making; the row's link, if any."""

    def load_tokens(self) -> Sequence[TokenRecord]:
        """Every token, by time of making, then id."""

    def revoke_token(
        self, token_id: str, *, at: Micros, act: SealedAct | None = None
    ) -> ChainHead | None:
        """Note that it opens nothing any more; the first time stays, and has the audit row."""

    def note_token_use(self, used_at: Mapping[str, Micros]) -> None:
        """Note when tokens were last used; a time never moves back."""

    def drop_dead_tokens(self, *, before: Micros) -> int:
        """Remove the `droppable_tokens` of a time; returns how many."""
