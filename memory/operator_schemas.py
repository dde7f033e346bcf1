"""What the verbs of people take: acts on a session's content, on sessions and on tokens.

As `memory.schemas`: shapes here, rules in the engine's request records.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, WithJsonSchema

from memory.argument_types import (
    TEXT_BOUND,
    UNIT,
    AgentName,
    Arguments,
    NodeIdText,
    SessionName,
    Text,
    Within,
    text_schema,
)
from memory.engine import limits
from memory.engine.requests import (
    ConfirmRequest,
    PurgeRequest,
    RestoreRequest,
    RetractRequest,
    RootGoalRequest,
    SynonymRequest,
)
from memory.engine.rights import Scope
from memory.engine.tokens import PATTERNS_MAX, SECONDS_MAX, TokenRequest

_REASON: Final = "Why, for the audit trail. Quote no text there that may have to go."
NODE_ID_BYTES: Final = 36


class RetractArguments(Arguments):
    """A concept to remove."""

    concept: Annotated[Text, Field(description=f"Its text or id. {TEXT_BOUND}")]
    dry_run: Annotated[bool, Field(description="true: only report what would go.")] = False
    reason: Annotated[Text | None, Field(description=_REASON)] = None

    def to_request(self) -> RetractRequest:
        return RetractRequest(self.concept, self.dry_run, self.reason)


class DisappearancesArguments(Arguments):
    """A page of what was taken out, newest first."""

    after: Annotated[
        Annotated[str, text_schema(NODE_ID_BYTES, least=0)],
        Field(description="The last audit id of the page before."),
    ] = ""
    limit: Annotated[int, Within(1, limits.DISAPPEARANCES_PER_PAGE)] = (
        limits.DISAPPEARANCES_PER_PAGE
    )


class RestoreArguments(Arguments):
    """A removed concept to bring back."""

    id: Annotated[NodeIdText, Field(description="Its id, or that of the audit row.")]
    reason: Annotated[Text | None, Field(description=_REASON)] = None

    def to_request(self) -> RestoreRequest:
        return RestoreRequest(self.id, self.reason)


class PurgeArguments(Arguments):
    """A concept, live or gone, to erase for good."""

    concept: Annotated[Text, Field(description=f"Its text or id. {TEXT_BOUND}")]
    confirm: Annotated[
        NodeIdText | None, Field(description="Its id. Without it, only report what would go.")
    ] = None
    reason: Annotated[Text | None, Field(description=_REASON)] = None

    def to_request(self) -> PurgeRequest:
        return PurgeRequest(self.concept, self.confirm, self.reason)


class ConfirmArguments(Arguments):
    """A concept that a person says is right."""

    concept: Annotated[Text, Field(description=f"Its text or id. {TEXT_BOUND}")]
    reason: Annotated[Text | None, Field(description=_REASON)] = None

    def to_request(self) -> ConfirmRequest:
        return ConfirmRequest(self.concept, self.reason)


class RootGoalArguments(Arguments):
    """What the session is for; an empty list clears it."""

    goals: Annotated[list[Text], Field(max_length=limits.LIMIT_GOAL_TEXTS, description=TEXT_BOUND)]

    def to_request(self) -> RootGoalRequest:
        return RootGoalRequest(tuple(self.goals))


class SynonymArguments(Arguments):
    """A spelling to read as another."""

    source: Annotated[Text, Field(description=f"The spelling met. {TEXT_BOUND}")]
    target: Annotated[Text, Field(description=f"What it stands for. {TEXT_BOUND}")]

    def to_request(self) -> SynonymRequest:
        return SynonymRequest(self.source, self.target)


class SessionListArguments(Arguments):
    """A page of the sessions, by name."""

    after: Annotated[
        Annotated[str, text_schema(limits.SESSION_NAME_BYTES, least=0)],
        Field(description="The last name of the page before."),
    ] = ""
    limit: Annotated[int, Within(1, limits.SESSIONS_PER_PAGE)] = limits.SESSIONS_PER_PAGE


class SessionCreateArguments(Arguments):
    """A session to create."""

    session: Annotated[
        SessionName, Field(description=f"Its name. At most {limits.SESSION_NAME_BYTES} {UNIT}.")
    ]


class SessionCloseArguments(Arguments):
    """Nothing to say: the session is named by the address."""


class SessionDeleteArguments(Arguments):
    """The session's name once more, so that no slip deletes one."""

    confirm: SessionName


class ReembedArguments(Arguments):
    """Whether to begin; the session is named by the address, the embedder is the server's."""

    start: Annotated[bool, Field(description="false: only tell how far it is.")] = True


class JobRunArguments(Arguments):
    """The job to run where it is due, or in one session alone."""

    job: Annotated[str, text_schema(limits.JOB_NAME_BYTES)]
    session: SessionName | None = None
    force: Annotated[bool, Field(description="true: run it though it is not due.")] = False
    interval_seconds: Annotated[
        Annotated[int, Within(1, limits.JOB_INTERVAL_SECONDS_MAX)] | None,
        Field(description="How often the caller asks, if not as often as the job says."),
    ] = None


class JobListArguments(Arguments):
    """Nothing to say."""


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
    expires_seconds: Annotated[int, Within(1, SECONDS_MAX)] | None = None

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
