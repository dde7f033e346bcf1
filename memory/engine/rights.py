"""Who may do what: the one place that decides, for every verb of every surface.

Owns scopes, session patterns and the decision itself. Knows nothing of how a caller was recognised:
a token, the operator secret or being on this machine all become one `Rights`. Refuses to look
whether a session exists, so a name outside a caller's patterns is answered alike in both cases.

Invariant: the pattern is checked before anything else, so that no other refusal tells of a session
the caller may not know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from memory.engine.errors import Forbidden, SessionNotFound

ANY_SESSION: Final = "*"
PATTERN_CACHE: Final = 4_096
"""Compiled session patterns kept."""


class Scope(StrEnum):
    """One thing a caller may be allowed. None of them includes another."""

    READ = "read"
    WRITE = "write"
    BACKDATE = "backdate"  # an event_time dates evidence
    ADMIN = "admin"  # the acts of people


@dataclass(frozen=True, slots=True)
class Rights:
    """What a recognised caller may do. `agent_id` is None where the caller names itself."""

    scopes: frozenset[Scope]
    patterns: tuple[str, ...] = (ANY_SESSION,)
    agent_id: str | None = None
    may_act_for_others: bool = True
    token_id: str | None = None

    def sees(self, session: str) -> bool:
        """Whether the caller may know of a session of this name."""
        return any(matches(pattern, session) for pattern in self.patterns)


LOCAL: Final = Rights(frozenset({Scope.READ, Scope.WRITE}))
"""A caller on this machine, where no token is asked for."""

OPERATOR: Final = Rights(frozenset(Scope))
"""Whoever can read the runtime file of the data folder."""


def without_admin(rights: Rights) -> Rights:
    """The same caller on a surface where no act of people is done."""
    return replace(rights, scopes=rights.scopes - {Scope.ADMIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody wants to do. An empty `session` is an act on no session."""

    verb: str
    scope: Scope
    session: str = ""
    agent_id: str | None = None
    is_server_wide: bool = False
    """Reaches past single sessions: only for callers whose patterns hold none out."""


def decide(rights: Rights, act: Act) -> str | None:
    """The agent an allowed act is done by, None where nobody is named.

    Raises `SessionNotFound` for a session outside the patterns, else `Forbidden`.
    """
    if act.session and not rights.sees(act.session):
        raise SessionNotFound(f"no session '{act.session}'", session=act.session)
    if act.scope not in rights.scopes:
        raise Forbidden(_refusal(rights, act), scope=str(act.scope))
    if act.is_server_wide and ANY_SESSION not in rights.patterns:
        raise Forbidden(f"{act.verb} is for callers of every session: pattern {ANY_SESSION}")
    return _speaker(rights, act.agent_id)


def _refusal(rights: Rights, act: Act) -> str:
    if rights.token_id is None and act.scope is Scope.ADMIN:
        return f"{act.verb} is for operators: it needs the operator secret"
    return f"{act.verb} needs the scope {act.scope}"


def _speaker(rights: Rights, named: str | None) -> str | None:
    """A token speaks for its own agent, and for others only if it was made to."""
    if named is None or named == rights.agent_id:
        return rights.agent_id
    if not rights.may_act_for_others:
        raise Forbidden(f"this token speaks for agent '{rights.agent_id}' alone", field="agent_id")
    return named


def matches(pattern: str, session: str) -> bool:
    """Whether a pattern takes in a session: `*` stands for any text, nothing else is special."""
    return pattern == ANY_SESSION or _compiled(pattern).fullmatch(session) is not None


@lru_cache(maxsize=PATTERN_CACHE)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Neighbouring stars are one, and each takes as little as it can: the number of stars, which is
    # limited where patterns are made, bounds the work on a long name.
    parts = re.split(r"\*+", pattern)
    return re.compile(".*?".join(map(re.escape, parts)), re.DOTALL)
