"""The types of arguments, as they are published in JSON schemas, and the root of all models.

Knows bounds, not rules: the engine's request records enforce what is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from memory.engine import limits
from memory.engine.requests import ConceptFilter, Match
from memory.engine.times import parse_rfc3339
from memory.engine.types import ConceptType, Status

UNIT: Final = "UTF-8 bytes"
CONCEPT_TYPES: Final = {str(kind).lower(): kind for kind in ConceptType}
STATUSES: Final = {str(status).lower(): status for status in Status}


def text_schema(limit_bytes: int, *, least: int = 1) -> WithJsonSchema:
    """The published bound counts characters, the rule counts bytes; descriptions name the unit."""
    return WithJsonSchema({"type": "string", "minLength": least, "maxLength": limit_bytes})


@dataclass(frozen=True, slots=True)
class Within:
    """Publishes the range of an integer; the engine's record enforces it."""

    low: int
    high: int

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core), "minimum": self.low, "maximum": self.high}


Text = Annotated[str, text_schema(limits.LIMIT_TEXT_BYTES)]
ChunkText = Annotated[str, text_schema(limits.LIMIT_TEXT_BYTES, least=0)]
AgentName = Annotated[str, text_schema(limits.AGENT_ID_BYTES)]
SessionName = Annotated[str, text_schema(limits.SESSION_NAME_BYTES)]
Key = Annotated[str, text_schema(limits.IDEMPOTENCY_KEY_BYTES)]
NodeIdText = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid", "maxLength": 36})]
TimeText = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 35})
]
Texts = Annotated[list[Text], Field(max_length=limits.LIMIT_CITATIONS)]
Depth = Annotated[int, Within(limits.DEPTH_MIN, limits.DEPTH_MAX)]
ConceptKind = Literal["entity", "logic", "constraint", "resource", "observation"]

StatusKind = Literal["none", "candidate", "venerable", "canonical"]

EventName = Literal[
    "write",
    "reservation",
    "promotion",
    "demotion",
    "disappearance",
    "conflict",
    "contradiction",
    "high-risk",
    "drift",
    "stale",
    "cycle",
]
"""The words of `memory.engine.events.EventKind`; a test holds the two together."""

TEXT_BOUND = f"At most {limits.LIMIT_TEXT_BYTES} {UNIT}."
TOGETHER = f"Such lists: at most {limits.LIMIT_CITATIONS} texts together."
VectorNumbers = Annotated[
    list[float],
    Field(max_length=limits.VECTOR_NUMBERS, json_schema_extra={"minItems": 1}),
]
ModelName = Annotated[str, text_schema(limits.AGENT_ID_BYTES)]
Wait = Annotated[
    bool,
    Field(description="false: answer when accepted; ask the receipt how it ended."),
]
VECTOR_MODEL = "The model that made the vectors, as the session's contract names it."
EVENT_TIME = "RFC 3339 with zone. Only to import dated notes."


class Arguments(BaseModel):
    """The root of all argument models. `agent_id` says who calls where the transport does not."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    agent_id: Annotated[
        AgentName | None,
        Field(description=f"Your own name. At most {limits.AGENT_ID_BYTES} {UNIT}."),
    ] = None


class FilterArguments(Arguments):
    """Which concepts may be shown."""

    types: Annotated[
        list[ConceptKind], Field(max_length=len(ConceptType), description="Of one of these types.")
    ] = []
    agents: Annotated[
        list[AgentName],
        Field(max_length=limits.LIMIT_FILTER_AGENTS, description="First written by one of these."),
    ] = []
    statuses: Annotated[
        list[StatusKind], Field(max_length=len(Status), description="Of one of these statuses.")
    ] = []
    since: Annotated[TimeText | None, Field(description="First written then or later.")] = None
    until: Annotated[TimeText | None, Field(description="First written earlier.")] = None
    match: Annotated[
        Literal["all", "any"], Field(description="Whether all conditions have to hold, or any.")
    ] = "all"

    def to_filter(self) -> ConceptFilter:
        return ConceptFilter(
            types=tuple(CONCEPT_TYPES[kind] for kind in self.types),
            agents=tuple(self.agents),
            statuses=tuple(STATUSES[kind] for kind in self.statuses),
            since=None if self.since is None else parse_rfc3339("since", self.since),
            until=None if self.until is None else parse_rfc3339("until", self.until),
            match=Match(self.match),
        )


FILTER_FIELDS: Final = frozenset(FilterArguments.model_fields) - {"agent_id"}
"""The names of the arguments that make a filter."""


class Part(BaseModel):
    """An object inside the arguments: as strict as they are."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
