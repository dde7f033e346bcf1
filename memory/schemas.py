"""What each verb of agents takes, as models: the published side of `memory.engine.requests`.

Owns the shape of arguments (names, types, bounds as published in JSON schemas). Refuses to own the
rules: a model only sees that each argument has its type, `to_request` makes the engine's record,
and that checks lengths, ranges and characters.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field
from pydantic.config import JsonDict

from memory.argument_types import (
    CONCEPT_TYPES,
    EVENT_TIME,
    TEXT_BOUND,
    TOGETHER,
    UNIT,
    VECTOR_MODEL,
    AgentName,
    Arguments,
    ChunkText,
    ConceptKind,
    Depth,
    EventName,
    FilterArguments,
    Key,
    ModelName,
    NodeIdText,
    Part,
    SessionName,
    Text,
    Texts,
    TimeText,
    VectorNumbers,
    Wait,
    Within,
    text_schema,
)
from memory.engine import limits
from memory.engine.events import EVENT_ID_MAX, EventsRequest
from memory.engine.requests import (
    LAYER_WEIGHT,
    ActionRequest,
    ConceptInput,
    ConceptsRequest,
    DemoteRequest,
    DeriveRequest,
    GuardRequest,
    InspectRequest,
    Layer,
    RecallRequest,
    ReleaseRequest,
    ReserveRequest,
)
from memory.engine.times import Micros, parse_rfc3339

# As published; the engine's record enforces it.
_OVER_0: Final[JsonDict] = {"exclusiveMinimum": 0}
_SHARE: Final[JsonDict] = {"minimum": 0, "maximum": 1}


class ConceptArgument(Part):
    """One statement of a derive."""

    content: Annotated[Text, Field(description=f"One complete statement. {TEXT_BOUND}")]
    concept_type: ConceptKind
    depends_on: Annotated[
        Texts, Field(description=f"Texts of saved statements this one rests on. {TOGETHER}")
    ] = []
    against: Annotated[
        Texts, Field(description="Texts of saved statements this one contradicts.")
    ] = []
    vector: Annotated[
        VectorNumbers | None, Field(description="What your own model makes of it.")
    ] = None


class ParentArgument(Part):
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
    event_time: Annotated[TimeText | None, Field(description=EVENT_TIME)] = None
    vector_model: Annotated[ModelName | None, Field(description=VECTOR_MODEL)] = None
    wait: Wait = True

    def to_request(self) -> DeriveRequest:
        return DeriveRequest(
            concepts=tuple(
                ConceptInput(
                    given.content,
                    CONCEPT_TYPES[given.concept_type],
                    tuple(given.depends_on),
                    tuple(given.against),
                    _numbers(given.vector),
                )
                for given in self.concepts
            ),
            parent_of=tuple((pair.parent, pair.child) for pair in self.parent_of),
            event_time=_instant(self.event_time),
            vector_model=self.vector_model,
        )


class ActionArguments(Arguments):
    """Something that was done, and what it touched."""

    action: Annotated[Text, Field(description=f"One sentence. {TEXT_BOUND}")]
    produces: Annotated[Texts, Field(description=f"What it made. {TOGETHER}")] = []
    modifies: Annotated[Texts, Field(description="What it changed.")] = []
    depends_on: Annotated[Texts, Field(description="What it needed.")] = []
    against: Annotated[Texts, Field(description="Saved statements it contradicts.")] = []
    event_time: Annotated[TimeText | None, Field(description=EVENT_TIME)] = None
    wait: Wait = True

    def to_request(self) -> ActionRequest:
        return ActionRequest(
            action=self.action,
            produces=tuple(self.produces),
            modifies=tuple(self.modifies),
            depends_on=tuple(self.depends_on),
            against=tuple(self.against),
            event_time=_instant(self.event_time),
        )


class LayerArgument(Part):
    """Another session to look at."""

    session: SessionName
    weight: Annotated[
        float, Field(description="Over 0; this session counts 1.", json_schema_extra=_OVER_0)
    ] = LAYER_WEIGHT
    min_similarity: Annotated[
        Annotated[float, Field(json_schema_extra=_SHARE)] | None,
        Field(description="Least likeness of a result."),
    ] = None


class _Question(Arguments):
    """What is asked, and how much to answer."""

    query: Annotated[Text, Field(description=f"What you want to know. {TEXT_BOUND}")]
    top_k: Annotated[
        int,
        Within(limits.TOP_K_MIN, limits.TOP_K_MAX),
        Field(description="How many results."),
    ] = 5
    max_tokens: Annotated[
        int,
        Within(limits.MAX_TOKENS_MIN, limits.MAX_TOKENS_MAX),
        Field(description="Size of the answer, in tokens."),
    ] = 500
    traversal_depth: Annotated[
        Depth, Field(description="How many links to follow from each result.")
    ] = 2
    vector: Annotated[
        VectorNumbers | None, Field(description="What your own model makes of the question.")
    ] = None
    vector_model: Annotated[ModelName | None, Field(description=VECTOR_MODEL)] = None
    layers: Annotated[
        list[LayerArgument],
        Field(
            max_length=limits.LIMIT_LAYERS,
            description="Other sessions to search too, nearest first.",
        ),
    ] = []


# A model's fields come in the order of its bases from the last: the question first.
class RecallArguments(FilterArguments, _Question):
    """A question to the memory."""

    def to_request(self) -> RecallRequest:
        return RecallRequest(
            self.query,
            self.top_k,
            self.max_tokens,
            self.traversal_depth,
            _numbers(self.vector),
            self.vector_model,
            self.to_filter(),
            tuple(
                Layer(layer.session, layer.weight, layer.min_similarity) for layer in self.layers
            ),
        )


class ConceptsArguments(FilterArguments):
    """A page of the concepts, oldest first."""

    after: Annotated[
        Annotated[str, text_schema(limits.PAGE_PLACE_BYTES, least=0)],
        Field(description="The `next` of the page before."),
    ] = ""
    limit: Annotated[int, Within(1, limits.CONCEPTS_PER_PAGE)] = limits.CONCEPTS_PER_PAGE

    def to_request(self) -> ConceptsRequest:
        return ConceptsRequest(self.after, self.limit, self.to_filter())


class EventsArguments(Arguments):
    """Which events to tell. Without `since` a page holds the newest, and a stream begins now."""

    since: Annotated[
        Annotated[int, Within(0, EVENT_ID_MAX)] | None,
        Field(description="Only those after this id."),
    ] = None
    kinds: Annotated[
        list[EventName],
        Field(max_length=limits.EVENT_KINDS_NAMED, description="Of one of these kinds."),
    ] = []
    limit: Annotated[int, Within(1, limits.EVENTS_PER_PAGE)] = limits.EVENTS_PER_PAGE

    def to_request(self) -> EventsRequest:
        return EventsRequest(self.since, tuple(self.kinds), self.limit)


class InspectArguments(Arguments):
    """A concept to look at."""

    focus: Annotated[Text, Field(description=f"Its text or id. {TEXT_BOUND}")]
    depth: Annotated[Depth, Field(description="How many links to follow.")] = 2

    def to_request(self) -> InspectRequest:
        return InspectRequest(self.focus, self.depth)


class GuardArguments(Arguments):
    """Something that is about to be done."""

    action: Annotated[Text, Field(description=f"What it is, or its command line. {TEXT_BOUND}")]

    def to_request(self) -> GuardRequest:
        return GuardRequest(self.action)


class ReserveArguments(Arguments):
    """A node to reserve: exactly one of `node_id` and `concept`."""

    node_id: Annotated[NodeIdText | None, Field(description="Its id, or ...")] = None
    concept: Annotated[Text | None, Field(description=f"... its text. {TEXT_BOUND}")] = None
    ttl_seconds: Annotated[
        int,
        Within(limits.TTL_SECONDS_MIN, limits.TTL_SECONDS_MAX),
        Field(description="For how long, in seconds."),
    ] = limits.TTL_SECONDS_DEFAULT

    def to_request(self) -> ReserveRequest:
        return ReserveRequest(self.node_id, self.concept, self.ttl_seconds)


class ReleaseArguments(Arguments):
    """A node to release: exactly one of `node_id` and `concept`."""

    node_id: Annotated[NodeIdText | None, Field(description="Its id, or ...")] = None
    concept: Annotated[Text | None, Field(description=f"... its text. {TEXT_BOUND}")] = None

    def to_request(self) -> ReleaseRequest:
        return ReleaseRequest(self.node_id, self.concept)


class DemoteArguments(Arguments):
    """A chunk of text to keep as observations, one per sentence."""

    chunk: Annotated[ChunkText, Field(description=TEXT_BOUND)]
    chunk_group_id: Annotated[
        AgentName, Field(description=f"At most {limits.AGENT_ID_BYTES} {UNIT}.")
    ]

    def to_request(self) -> DemoteRequest:
        return DemoteRequest(self.chunk, self.chunk_group_id)


class SaintsArguments(Arguments):
    """Nothing to say."""


class StatsArguments(Arguments):
    """Nothing to say."""


class ReceiptArguments(Arguments):
    """The key of an earlier write."""

    key: Annotated[Key, Field(description=f"At most {limits.IDEMPOTENCY_KEY_BYTES} {UNIT}.")]


def _numbers(vector: list[float] | None) -> tuple[float, ...] | None:
    return None if vector is None else tuple(vector)


def _instant(text: str | None) -> Micros | None:
    return None if text is None else parse_rfc3339("event_time", text)
