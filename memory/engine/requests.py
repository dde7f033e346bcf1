"""What callers may ask, checked when it is made.

These records are the edge of the engine: whoever holds one holds valid input, whichever surface it
came through. Every refusal is an `InvalidArgument` that names the field and the limit. Surfaces add
nothing but parsing.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum

from memory.engine import limits
from memory.engine.errors import InvalidArgument
from memory.engine.text import check_text, has_key
from memory.engine.times import EARLIEST, LATEST, Micros
from memory.engine.types import ConceptType, Json, Status

_REFUSED_IN_SESSION_NAMES = frozenset('/\\*?[]{}%"<>|')
LAYER_WEIGHT = 0.5
"""Of a layer that says none."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def check_range(field: str, value: int, low: int, high: int) -> None:
    """Refuse an integer outside `low..=high`, in the words every surface uses."""
    # A surface parses, an embedding program may not: 1.5 seconds would pass a comparison.
    if type(value) is not int or not low <= value <= high:
        raise InvalidArgument(
            field, f"{field} must be in {low}..={high}", minimum=low, maximum=high
        )


def check_count(field: str, given: int, most: int, *, least: int = 0) -> None:
    """Refuse a list that is too short or too long."""
    if given < least:
        raise InvalidArgument(
            field, f"{field} must contain at least {least} entr{'y' if least == 1 else 'ies'}"
        )
    if given > most:
        raise InvalidArgument(
            field, f"{field} must contain at most {most} entries ({given} given)", maximum=most
        )


def check_event_time(value: Micros | None) -> None:
    """Refuse an instant that no calendar of four-digit years can show."""
    if value is not None and not (type(value) is int and EARLIEST <= value <= LATEST):
        raise InvalidArgument("event_time", "event_time must be in the years 1 to 9999")


def check_keyed_text(field: str, value: str) -> None:
    """Refuse text that cannot name a concept: bad characters, blank, or only stop words."""
    check_text(field, value)
    if not has_key(value):
        raise InvalidArgument(field, f"{field} must contain a word that is not a stop word")


def check_name(field: str, value: str, limit_bytes: int) -> None:
    """Refuse a name (session, agent, key) that is blank, multi-line or over its own limit."""
    check_text(field, value)
    if "\n" in value or "\t" in value or value != value.strip():
        raise InvalidArgument(field, f"{field} must be one line without space at its ends")
    size = len(value.encode())
    if size > limit_bytes:
        raise InvalidArgument(
            field, f"{field} exceeds {limit_bytes} bytes ({size} given)", maximum=limit_bytes
        )


def check_session_name(value: str, field: str = "session") -> None:
    """Refuse a session name that could not stand in a path or would read as a pattern."""
    check_name(field, value, limits.SESSION_NAME_BYTES)
    refused = sorted(set(value) & _REFUSED_IN_SESSION_NAMES)
    if refused or value in (".", ".."):
        shown = " ".join(refused) or value
        raise InvalidArgument(field, f"{field} may not contain {shown}")


def parse_node_id(field: str, value: str) -> str:
    """A UUID in its canonical lower-case form; refuses anything else."""
    check_text(field, value)
    text = value.strip().lower()
    if not _UUID.fullmatch(text):
        raise InvalidArgument(field, f"{field} must be a UUID")
    return text


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls and under which idempotency key. `is_operator` opens the human acts.

    With `may_backdate` the times a caller tells date its evidence; else they are only shown.
    """

    agent_id: str
    key: str | None = None
    is_operator: bool = False
    may_backdate: bool = False

    def __post_init__(self) -> None:
        check_name("agent_id", self.agent_id, limits.AGENT_ID_BYTES)
        if self.key is not None:
            check_name("idempotency_key", self.key, limits.IDEMPOTENCY_KEY_BYTES)


def check_vector_numbers(field: str, vector: tuple[float, ...] | None) -> None:
    """Refuse what is no list of finite numbers. Its width is the session's to judge."""
    if vector is None:
        return
    check_count(field, len(vector), limits.VECTOR_NUMBERS, least=1)
    for place, number in enumerate(vector):
        if type(number) not in (int, float) or not math.isfinite(number):
            raise InvalidArgument(f"{field}[{place}]", f"{field}[{place}] must be a finite number")


def check_vector_model(field: str | None, model: str | None) -> None:
    """A vector says what made it; `field` is where the first one stands, or None without any."""
    if model is not None:
        check_name("vector_model", model, limits.AGENT_ID_BYTES)
    if field is not None and model is None:
        raise InvalidArgument(
            "vector_model", f"vector_model is required with {field}: name the model that made it"
        )
    if field is None and model is not None:
        raise InvalidArgument("vector_model", "vector_model means nothing without a vector")


@dataclass(frozen=True, slots=True)
class ConceptInput:
    """One concept of a derive, with the existing concepts it cites.

    `vector` is what the caller's own model makes of it, for content that the server's cannot read.
    """

    content: str
    concept_type: ConceptType
    depends_on: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    vector: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeriveRequest:
    """Statements to remember. `parent_of` holds (parent, child) texts.

    `vector_model` names the model that made their vectors.
    """

    concepts: tuple[ConceptInput, ...]
    parent_of: tuple[tuple[str, str], ...] = ()
    event_time: Micros | None = None
    vector_model: str | None = None

    def __post_init__(self) -> None:
        check_count("concepts", len(self.concepts), limits.LIMIT_CONCEPTS, least=1)
        check_count("parent_of", len(self.parent_of), limits.LIMIT_PARENT_PAIRS)
        citations = 0
        for place, concept in enumerate(self.concepts):
            check_keyed_text(f"concepts[{place}].content", concept.content)
            if type(concept.concept_type) is not ConceptType:  # its text would pass for it
                field = f"concepts[{place}].concept_type"
                kinds = ", ".join(ConceptType)
                raise InvalidArgument(field, f"{field} must be one of {kinds}")
            check_vector_numbers(f"concepts[{place}].vector", concept.vector)
            for name in ("depends_on", "against"):
                texts: tuple[str, ...] = getattr(concept, name)
                citations += len(texts)
                for at, text in enumerate(texts):
                    check_text(f"concepts[{place}].{name}[{at}]", text)
        if citations > limits.LIMIT_CITATIONS:
            raise InvalidArgument(
                "concepts",
                f"depends_on + against must total at most {limits.LIMIT_CITATIONS} entries "
                f"({citations} given)",
                maximum=limits.LIMIT_CITATIONS,
            )
        for place, (parent, child) in enumerate(self.parent_of):
            _check_pair(f"parent_of[{place}]", parent, child)
        check_event_time(self.event_time)
        check_vector_model(self.vector_field, self.vector_model)

    @property
    def vector_field(self) -> str | None:
        """Where the first vector stands, or None when there is none."""
        places = (place for place, each in enumerate(self.concepts) if each.vector is not None)
        first = next(places, None)
        return None if first is None else f"concepts[{first}].vector"


def _check_pair(field: str, parent: str, child: str) -> None:
    check_keyed_text(f"{field}.parent", parent)
    check_keyed_text(f"{field}.child", child)
    if parent == child:
        raise InvalidArgument(field, f"{field}: parent and child must differ")


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """Something an agent did, and what it touched."""

    action: str
    produces: tuple[str, ...] = ()
    modifies: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    event_time: Micros | None = None

    def __post_init__(self) -> None:
        check_keyed_text("action", self.action)
        total = len(self.produces) + len(self.modifies) + len(self.depends_on)
        if total > limits.LIMIT_ACTION_TARGETS:
            raise InvalidArgument(
                "depends_on",
                "produces + modifies + depends_on must total at most "
                f"{limits.LIMIT_ACTION_TARGETS} entries ({total} given)",
                maximum=limits.LIMIT_ACTION_TARGETS,
            )
        check_count("against", len(self.against), limits.LIMIT_ACTION_TARGETS)
        for name in ("produces", "modifies", "depends_on"):
            for place, text in enumerate(getattr(self, name)):
                check_keyed_text(f"{name}[{place}]", text)
        for place, text in enumerate(self.against):
            check_text(f"against[{place}]", text)
        check_event_time(self.event_time)


class Match(StrEnum):
    """How many of the conditions of a filter have to hold."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class ConceptFilter:
    """Which concepts may be shown: up to four conditions, of which all or any have to hold.

    Each of `types`, `agents` and `statuses` that is not empty is one condition, met by any of its
    members; `agents` are those that first wrote a concept. `since` (inclusive) and `until`
    (exclusive) are together one condition on when it was first written. Without a condition every
    concept is accepted.
    """

    types: tuple[ConceptType, ...] = ()
    agents: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    since: Micros | None = None
    until: Micros | None = None
    match: Match = Match.ALL

    def __post_init__(self) -> None:
        check_count("agents", len(self.agents), limits.LIMIT_FILTER_AGENTS)
        for place, agent in enumerate(self.agents):
            check_name(f"agents[{place}]", agent, limits.AGENT_ID_BYTES)
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InvalidArgument("until", "until must be later than since")

    @property
    def accepts_all(self) -> bool:
        """Whether there is no condition."""
        has_words = self.types or self.agents or self.statuses
        return not has_words and self.since is None and self.until is None


EVERY_CONCEPT = ConceptFilter()

_PLACE_IN_PAGES = re.compile(r"(-?[0-9]{1,18})\.(.+)")


@dataclass(frozen=True, slots=True)
class ConceptsRequest:
    """A page of the concepts that a filter accepts, oldest first.

    `after` is where the page before ended, as that page's `next` says; empty for the first one.
    """

    after: str = ""
    limit: int = limits.CONCEPTS_PER_PAGE
    wanted: ConceptFilter = EVERY_CONCEPT

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 1, limits.CONCEPTS_PER_PAGE)
        if self.after:
            self.place()

    def place(self) -> tuple[Micros, str] | None:
        """The instant and id of the last concept of the page before."""
        if not self.after:
            return None
        found = _PLACE_IN_PAGES.fullmatch(self.after)
        if found is None:
            raise InvalidArgument("after", "after must be the next of an earlier page")
        return int(found[1]), parse_node_id("after", found[2])


@dataclass(frozen=True, slots=True)
class Layer:
    """Another session that a recall looks at.

    `weight` is what its places count, where those of the session asked count 1. `min_similarity` is
    the least cosine of a hit with the question, None for the line of the session's contract.
    """

    session: str
    weight: float = LAYER_WEIGHT
    min_similarity: float | None = None

    def check(self, field: str) -> None:
        """Refuse what no session can be looked at with; `field` is where it stands."""
        check_session_name(self.session, f"{field}.session")
        if not _is_number(self.weight) or self.weight <= 0:
            raise InvalidArgument(f"{field}.weight", f"{field}.weight must be a number over 0")
        least = self.min_similarity
        if least is not None and not (_is_number(least) and 0 <= least <= 1):
            where = f"{field}.min_similarity"
            raise InvalidArgument(where, f"{where} must be in 0..=1", minimum=0, maximum=1)


def _is_number(value: float) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """A question, and how much of the answer to show.

    `vector` stands for the query where the question is asked by meaning; `vector_model` made it.
    `wanted` says which concepts may be shown. `layers` are other sessions that are looked at too,
    nearest first.
    """

    query: str
    top_k: int = 5
    max_tokens: int = 500
    traversal_depth: int = 2
    vector: tuple[float, ...] | None = None
    vector_model: str | None = None
    wanted: ConceptFilter = EVERY_CONCEPT
    layers: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        check_text("query", self.query)
        check_count("layers", len(self.layers), limits.LIMIT_LAYERS)
        for place, layer in enumerate(self.layers):
            layer.check(f"layers[{place}]")
            if any(other.session == layer.session for other in self.layers[:place]):
                field = f"layers[{place}].session"
                raise InvalidArgument(field, f"{field} stands in layers already")
        check_range("top_k", self.top_k, limits.TOP_K_MIN, limits.TOP_K_MAX)
        check_range("max_tokens", self.max_tokens, limits.MAX_TOKENS_MIN, limits.MAX_TOKENS_MAX)
        check_range("traversal_depth", self.traversal_depth, limits.DEPTH_MIN, limits.DEPTH_MAX)
        check_vector_numbers("vector", self.vector)
        check_vector_model(None if self.vector is None else "vector", self.vector_model)


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """A concept (text or id) and how far around it to look."""

    focus: str
    depth: int = 2

    def __post_init__(self) -> None:
        check_text("focus", self.focus)
        check_range("depth", self.depth, limits.DEPTH_MIN, limits.DEPTH_MAX)


@dataclass(frozen=True, slots=True)
class GuardRequest:
    """An act that is about to be done, in the words of a person or of a command line."""

    action: str

    def __post_init__(self) -> None:
        check_text("action", self.action)


@dataclass(frozen=True, slots=True)
class ReserveRequest:
    """Take a soft lock on a node named by its id, or on a concept named by its text."""

    node_id: str | None = None
    concept: str | None = None
    ttl_seconds: int = limits.TTL_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        _check_target(self.node_id, self.concept)
        check_range("ttl_seconds", self.ttl_seconds, limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX)


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """Give a soft lock back."""

    node_id: str | None = None
    concept: str | None = None

    def __post_init__(self) -> None:
        _check_target(self.node_id, self.concept)


def _check_target(node_id: str | None, concept: str | None) -> None:
    if (node_id is None) == (concept is None):
        raise InvalidArgument("node_id", "give exactly one of node_id and concept")
    if node_id is not None:
        parse_node_id("node_id", node_id)
    if concept is not None:
        check_text("concept", concept)


@dataclass(frozen=True, slots=True)
class DemoteRequest:
    """A chunk of text that no longer fits an agent's context, to be kept as observations."""

    chunk: str
    chunk_group_id: str

    def __post_init__(self) -> None:
        check_text("chunk", self.chunk, allow_blank=True)
        check_name("chunk_group_id", self.chunk_group_id, limits.AGENT_ID_BYTES)


@dataclass(frozen=True, slots=True)
class RetractRequest:
    """A concept (text or id) to remove; `dry_run` only reports what would go."""

    concept: str
    dry_run: bool = False
    reason: str | None = None

    def __post_init__(self) -> None:
        check_text("concept", self.concept)
        _check_reason(self.reason)


def _check_reason(reason: str | None) -> None:
    if reason is not None:
        check_text("reason", reason)


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A concept to bring back: its id, or that of the audit row of its removal."""

    id: str
    reason: str | None = None

    def __post_init__(self) -> None:
        parse_node_id("id", self.id)
        _check_reason(self.reason)


@dataclass(frozen=True, slots=True)
class ConfirmRequest:
    """A concept (text or id) that a person says is right."""

    concept: str
    reason: str | None = None

    def __post_init__(self) -> None:
        check_text("concept", self.concept)
        _check_reason(self.reason)


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """A concept (text or id), live or gone, to erase for good.

    Without `confirm`, its id, it is only reported what would go.
    """

    concept: str
    confirm: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        check_text("concept", self.concept)
        if self.confirm is not None:
            parse_node_id("confirm", self.confirm)
        _check_reason(self.reason)


@dataclass(frozen=True, slots=True)
class RootGoalRequest:
    """What the session is for: a list of texts, or none to clear it."""

    goals: tuple[str, ...]

    def __post_init__(self) -> None:
        check_count("goals", len(self.goals), limits.LIMIT_GOAL_TEXTS)
        for place, text in enumerate(self.goals):
            check_text(f"goals[{place}]", text)


@dataclass(frozen=True, slots=True)
class SynonymRequest:
    """Read `source` as `target` wherever a concept is named."""

    source: str
    target: str

    def __post_init__(self) -> None:
        check_text("source", self.source)
        check_keyed_text("target", self.target)
        if self.source.strip() == self.target.strip():
            raise InvalidArgument("target", "source and target must differ")


def canonical_json(value: Json) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
