"""What each verb takes and gives, as models: the published side of `memory.engine.requests`.

Owns the shape of arguments (names, types, bounds as published in JSON schemas) and the reading of a
payload into a model. Refuses to own the rules: a model only sees that each argument has its type,
`to_request` makes the engine's record, and that checks lengths, ranges and characters.

Invariant: whatever is wrong with a payload, the caller meets one `InvalidArgument`, of the mistake
that stands first in the document, in the words the engine uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, ErrorDetails

from memory.engine import limits
from memory.engine.errors import InvalidArgument
from memory.engine.requests import (
    ActionRequest,
    ConceptInput,
    DemoteRequest,
    DeriveRequest,
    InspectRequest,
    RecallRequest,
    ReleaseRequest,
    ReserveRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.rights import Scope
from memory.engine.text import check_text
from memory.engine.times import Micros, parse_rfc3339
from memory.engine.tokens import PATTERNS_MAX, SECONDS_MAX, TokenRequest
from memory.engine.types import ConceptType

MISTAKES_MAX: Final = 1_000
"""Above this many mistakes a payload is refused without looking for the first."""

_NAME_SHOWN_CHARS: Final = 64
_MAY_BE_BLANK: Final = frozenset({"chunk"})

# -- the types of arguments --------------------------------------------------------------------

_UNIT = "UTF-8 bytes"


def _text_schema(limit_bytes: int, *, least: int = 1) -> WithJsonSchema:
    """The published bound counts characters, the rule counts bytes; descriptions name the unit."""
    return WithJsonSchema({"type": "string", "minLength": least, "maxLength": limit_bytes})


@dataclass(frozen=True, slots=True)
class _Within:
    """Publishes the range of an integer; the engine's record enforces it."""

    low: int
    high: int

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core), "minimum": self.low, "maximum": self.high}


Text = Annotated[str, _text_schema(limits.LIMIT_TEXT_BYTES)]
ChunkText = Annotated[str, _text_schema(limits.LIMIT_TEXT_BYTES, least=0)]
AgentName = Annotated[str, _text_schema(limits.AGENT_ID_BYTES)]
SessionName = Annotated[str, _text_schema(limits.SESSION_NAME_BYTES)]
Key = Annotated[str, _text_schema(limits.IDEMPOTENCY_KEY_BYTES)]
NodeIdText = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid", "maxLength": 36})]
TimeText = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 35})
]
Texts = Annotated[list[Text], Field(max_length=limits.LIMIT_CITATIONS)]
Depth = Annotated[int, _Within(limits.DEPTH_MIN, limits.DEPTH_MAX)]
ConceptKind = Literal["entity", "logic", "constraint", "resource", "observation"]

_TEXT_BOUND = f"At most {limits.LIMIT_TEXT_BYTES} {_UNIT}."
_TOGETHER = f"Such lists: at most {limits.LIMIT_CITATIONS} texts together."
_EVENT_TIME = "RFC 3339 with zone. Only to import dated notes."


class Arguments(BaseModel):
    """The root of all argument models. `agent_id` says who calls where the transport does not."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    agent_id: Annotated[
        AgentName | None,
        Field(description=f"Your own name. At most {limits.AGENT_ID_BYTES} {_UNIT}."),
    ] = None


class _Part(BaseModel):
    """An object inside the arguments: as strict as they are."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


# -- arguments, verb by verb -------------------------------------------------------------------


class ConceptArgument(_Part):
    """One statement of a derive."""

    content: Annotated[Text, Field(description=f"One complete statement. {_TEXT_BOUND}")]
    concept_type: ConceptKind
    depends_on: Annotated[
        Texts, Field(description=f"Texts of saved statements this one rests on. {_TOGETHER}")
    ] = []
    against: Annotated[
        Texts, Field(description="Texts of saved statements this one contradicts.")
    ] = []


class ParentArgument(_Part):
    """A pair of concepts, one part of the other."""

    parent: Text
    child: Text


class DeriveArguments(Arguments):
    """Statements to remember."""

    concepts: Annotated[
        list[ConceptArgument],
        Field(max_length=limits.LIMIT_CONCEPTS, json_schema_extra={"minItems": 1}),
    ]
    parent_of: Annotated[
        list[ParentArgument],
        Field(max_length=limits.LIMIT_PARENT_PAIRS, description="What is a part of what."),
    ] = []
    event_time: Annotated[TimeText | None, Field(description=_EVENT_TIME)] = None

    def to_request(self) -> DeriveRequest:
        return DeriveRequest(
            concepts=tuple(
                ConceptInput(
                    given.content,
                    _CONCEPT_TYPES[given.concept_type],
                    tuple(given.depends_on),
                    tuple(given.against),
                )
                for given in self.concepts
            ),
            parent_of=tuple((pair.parent, pair.child) for pair in self.parent_of),
            event_time=_instant(self.event_time),
        )


class ActionArguments(Arguments):
    """Something that was done, and what it touched."""

    action: Annotated[Text, Field(description=f"One sentence. {_TEXT_BOUND}")]
    produces: Annotated[Texts, Field(description=f"What it made. {_TOGETHER}")] = []
    modifies: Annotated[Texts, Field(description="What it changed.")] = []
    depends_on: Annotated[Texts, Field(description="What it needed.")] = []
    against: Annotated[Texts, Field(description="Saved statements it contradicts.")] = []
    event_time: Annotated[TimeText | None, Field(description=_EVENT_TIME)] = None

    def to_request(self) -> ActionRequest:
        return ActionRequest(
            action=self.action,
            produces=tuple(self.produces),
            modifies=tuple(self.modifies),
            depends_on=tuple(self.depends_on),
            against=tuple(self.against),
            event_time=_instant(self.event_time),
        )


class RecallArguments(Arguments):
    """A question to the memory."""

    query: Annotated[Text, Field(description=f"What you want to know. {_TEXT_BOUND}")]
    top_k: Annotated[
        int,
        _Within(limits.TOP_K_MIN, limits.TOP_K_MAX),
        Field(description="How many results."),
    ] = 5
    max_tokens: Annotated[
        int,
        _Within(limits.MAX_TOKENS_MIN, limits.MAX_TOKENS_MAX),
        Field(description="Size of the answer, in tokens."),
    ] = 500
    traversal_depth: Annotated[
        Depth, Field(description="How many links to follow from each result.")
    ] = 2

    def to_request(self) -> RecallRequest:
        return RecallRequest(self.query, self.top_k, self.max_tokens, self.traversal_depth)


class InspectArguments(Arguments):
    """A concept to look at."""

    focus: Annotated[Text, Field(description=f"Its text or id. {_TEXT_BOUND}")]
    depth: Annotated[Depth, Field(description="How many links to follow.")] = 2

    def to_request(self) -> InspectRequest:
        return InspectRequest(self.focus, self.depth)


class ReserveArguments(Arguments):
    """A node to reserve: exactly one of `node_id` and `concept`."""

    node_id: Annotated[NodeIdText | None, Field(description="Its id, or ...")] = None
    concept: Annotated[Text | None, Field(description=f"... its text. {_TEXT_BOUND}")] = None
    ttl_seconds: Annotated[
        int,
        _Within(limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX),
        Field(description="For how long, in seconds."),
    ] = limits.TTL_SECONDS_DEFAULT

    def to_request(self) -> ReserveRequest:
        return ReserveRequest(self.node_id, self.concept, self.ttl_seconds)


class ReleaseArguments(Arguments):
    """A node to release: exactly one of `node_id` and `concept`."""

    node_id: Annotated[NodeIdText | None, Field(description="Its id, or ...")] = None
    concept: Annotated[Text | None, Field(description=f"... its text. {_TEXT_BOUND}")] = None

    def to_request(self) -> ReleaseRequest:
        return ReleaseRequest(self.node_id, self.concept)


class DemoteArguments(Arguments):
    """A chunk of text to keep as observations, one per sentence."""

    chunk: Annotated[ChunkText, Field(description=_TEXT_BOUND)]
    chunk_group_id: Annotated[
        AgentName, Field(description=f"At most {limits.AGENT_ID_BYTES} {_UNIT}.")
    ]

    def to_request(self) -> DemoteRequest:
        return DemoteRequest(self.chunk, self.chunk_group_id)


class RetractArguments(Arguments):
    """A concept to remove."""

    concept: Annotated[Text, Field(description=f"Its text or id. {_TEXT_BOUND}")]
    dry_run: Annotated[bool, Field(description="true: only report what would go.")] = False

    def to_request(self) -> RetractRequest:
        return RetractRequest(self.concept, self.dry_run)


class RootGoalArguments(Arguments):
    """What the session is for; an empty list clears it."""

    goals: Annotated[list[Text], Field(max_length=limits.LIMIT_GOAL_TEXTS, description=_TEXT_BOUND)]

    def to_request(self) -> RootGoalRequest:
        return RootGoalRequest(tuple(self.goals))


class SynonymArguments(Arguments):
    """A spelling to read as another."""

    source: Annotated[Text, Field(description=f"The spelling met. {_TEXT_BOUND}")]
    target: Annotated[Text, Field(description=f"What it stands for. {_TEXT_BOUND}")]

    def to_request(self) -> SynonymRequest:
        return SynonymRequest(self.source, self.target)


class SaintsArguments(Arguments):
    """Nothing to say."""


class StatsArguments(Arguments):
    """Nothing to say."""


class ReceiptArguments(Arguments):
    """The key of an earlier write."""

    key: Annotated[Key, Field(description=f"At most {limits.IDEMPOTENCY_KEY_BYTES} {_UNIT}.")]


class SessionListArguments(Arguments):
    """A page of the sessions, by name."""

    after: Annotated[
        Annotated[str, _text_schema(limits.SESSION_NAME_BYTES, least=0)],
        Field(description="The last name of the page before."),
    ] = ""
    limit: Annotated[int, _Within(1, limits.SESSIONS_PER_PAGE)] = limits.SESSIONS_PER_PAGE


class SessionCreateArguments(Arguments):
    """A session to create."""

    session: Annotated[
        SessionName, Field(description=f"Its name. At most {limits.SESSION_NAME_BYTES} {_UNIT}.")
    ]


class SessionCloseArguments(Arguments):
    """Nothing to say: the session is named by the address."""


class SessionDeleteArguments(Arguments):
    """The session's name once more, so that no slip deletes one."""

    confirm: SessionName


class TokenCreateArguments(Arguments):
    """Who gets the token, and what it opens."""

    name: Annotated[AgentName, Field(description="What people call it.")]
    agent: Annotated[AgentName, Field(description="The agent it speaks for.")]
    scopes: Annotated[
        list[Literal["read", "write", "backdate", "admin"]],
        Field(max_length=len(Scope), json_schema_extra={"minItems": 1}),
    ]
    sessions: Annotated[
        list[SessionName],
        Field(
            max_length=PATTERNS_MAX,
            json_schema_extra={"minItems": 1},
            description="The sessions it opens, by name; * stands for any text.",
        ),
    ]
    may_act_for_others: bool = False
    expires_seconds: Annotated[int, _Within(1, SECONDS_MAX)] | None = None

    def to_request(self) -> TokenRequest:
        return TokenRequest(
            self.name,
            self.agent,
            frozenset(Scope(word) for word in self.scopes),
            tuple(self.sessions),
            self.may_act_for_others,
            self.expires_seconds,
        )


class TokenListArguments(Arguments):
    """Nothing to say."""


class TokenRevokeArguments(Arguments):
    """The token, by the id that the list shows."""

    id: Annotated[str, WithJsonSchema({"type": "string", "minLength": 16, "maxLength": 16})]


_CONCEPT_TYPES: Final = {str(kind).lower(): kind for kind in ConceptType}


def _instant(text: str | None) -> Micros | None:
    return None if text is None else parse_rfc3339("event_time", text)


# -- reading a payload -------------------------------------------------------------------------

A = TypeVar("A", bound=Arguments)


def parse_arguments(model: type[A], payload: Any) -> A:
    """The arguments that a JSON document holds; raises one `InvalidArgument` for its first mistake.

    Checks shape alone. What the engine's record refuses comes from `to_request`.
    """
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        if error.error_count() > MISTAKES_MAX:
            message = f"the arguments hold more than {MISTAKES_MAX} mistakes"
            raise InvalidArgument("body", message) from None
        mistakes = error.errors(include_url=False)
        raise _refusal(model, _first_in_document(mistakes, payload), payload) from None


def _first_in_document(mistakes: list[ErrorDetails], payload: Any) -> ErrorDetails:
    """The mistake a reader of the payload meets first; what is missing comes after what stands."""
    container, level = payload, 0
    while len(mistakes) > 1:
        if any(len(mistake["loc"]) <= level for mistake in mistakes):
            return next(mistake for mistake in mistakes if len(mistake["loc"]) <= level)
        if isinstance(container, dict):
            places = {name: place for place, name in enumerate(container)}
        else:
            places = {place: place for place in range(len(container))}
        absent = len(places)
        steps = [mistake["loc"][level] for mistake in mistakes]
        first = min(steps, key=lambda step: places.get(step, absent))
        mistakes = [mistake for mistake in mistakes if mistake["loc"][level] == first]
        if first not in places:
            return mistakes[0]
        container, level = container[first], level + 1
    return mistakes[0]


def _refusal(model: type[Arguments], mistake: ErrorDetails, payload: Any) -> InvalidArgument:
    field = _path(mistake["loc"])
    if mistake["type"] == "string_unicode" and isinstance(_at(payload, mistake["loc"]), dict):
        # A name without UTF-8 is told at the object that holds it.
        field = _path((*mistake["loc"], str(mistake["input"])))
        return InvalidArgument(field, f"unknown argument '{field}'")
    if mistake["type"] == "extra_forbidden":
        return InvalidArgument(field, f"unknown argument '{field}'")
    if not field:
        return InvalidArgument("body", "the arguments must be a JSON object")
    return InvalidArgument(field, _message(model, mistake, field))


def _message(model: type[Arguments], mistake: ErrorDetails, field: str) -> str:
    context = mistake.get("ctx", {})
    match mistake["type"]:
        case "missing":
            return f"{field} is required"
        case "string_type":
            return f"{field} must be a {'' if field in _MAY_BE_BLANK else 'non-empty '}string"
        case "string_unicode":
            return _text_fault(field, mistake["input"])
        case "int_type":
            return f"{field} must be an integer{_range_of(model, mistake['loc'])}"
        case "bool_type":
            return f"{field} must be true or false"
        case "list_type":
            return f"{field} must be a list"
        case "model_type":
            return f"{field} must be an object"
        case "literal_error":
            return f"{field} must be one of {context['expected']}"
        case "too_long":
            most, given = context["max_length"], context["actual_length"]
            return f"{field} must contain at most {most} entries ({given} given)"
    return f"{field} is not valid"


def _text_fault(field: str, value: str) -> str:
    try:
        check_text(field, value)
    except InvalidArgument as error:
        return error.message
    return f"{field} is not valid text"


def _range_of(model: type[Arguments], loc: tuple[int | str, ...]) -> str:
    info = model.model_fields.get(str(loc[0])) if len(loc) == 1 else None
    for mark in info.metadata if info else ():
        if isinstance(mark, _Within):
            return f" in {mark.low}..={mark.high}"
    return ""


def _path(loc: tuple[int | str, ...]) -> str:
    """`concepts[3].content`. A name that was sent is shown escaped and cut."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{_shown(step)}" if path else _shown(step)
    return path


def _shown(name: str) -> str:
    safe = name[:_NAME_SHOWN_CHARS].encode("unicode_escape").decode()
    return safe if len(name) <= _NAME_SHOWN_CHARS else f"{safe}..."


def _at(payload: Any, loc: tuple[int | str, ...]) -> Any:
    """What stands at a place of the payload."""
    for step in loc:
        payload = payload[step]
    return payload
