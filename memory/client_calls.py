"""What goes over the wire: one HTTP request per verb, and what its answer means.

Owns paths, bodies, headers and the way back from an error body to the engine's error classes.
Opens no connection and repeats nothing; both clients build on the same records. Refuses only what
could not be sent, or would reach another address than meant: every rule about content is the
server's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, NotRequired, TypedDict
from urllib.parse import quote, urlencode

import memory.engine.errors as errors
from memory.engine.errors import InvalidArgument, LamboError

API_PATH: Final = "/api/v1"

WRITE_VERBS: Final = frozenset(
    {
        "derive",
        "record-action",
        "reserve",
        "release",
        "retract",
        "restore",
        "purge",
        "confirm",
        "demote",
        "root-goal",
        "synonym",
    }
)
"""Verbs that change a session; each call carries one idempotency key."""

OPERATOR_VERBS: Final = frozenset(
    {"retract", "restore", "purge", "confirm", "root-goal", "synonym"}
)
"""Acts of people: the operator secret goes with these and with no other."""

READ_VERBS: Final = frozenset({"recall", "inspect", "guard"})
GET_VERBS: Final = frozenset({"saints", "stats"})


class ServerUnreachable(LamboError):
    """No server answers at the address."""

    code: ClassVar[str] = "server_unreachable"


class UnexpectedAnswer(LamboError):
    """Whatever answered does not speak this API."""

    code: ClassVar[str] = "unexpected_answer"


class JobFailed(LamboError):
    """The server ran the job, and it failed where the message says."""

    code: ClassVar[str] = "job_failed"


class Answer(TypedDict):
    """What a verb answered: text for people, the same as data, and warnings.

    A write names its `idempotency_key`; `replayed` says that an earlier call under that key had
    done it already.
    """

    text: str
    structured: dict[str, Any]
    warnings: list[str]
    idempotency_key: str | None
    replayed: bool


class ConceptFields(TypedDict):
    """One concept of a derive. `concept_type` is lower case; citations name existing concepts."""

    content: str
    concept_type: str
    depends_on: NotRequired[list[str]]
    against: NotRequired[list[str]]
    vector: NotRequired[list[float]]


class Filter(TypedDict, total=False):
    """Which concepts may be shown: `all` conditions have to hold, or `any` (`match`).

    `agents` first wrote a concept; words of types and statuses are lower case.
    """

    types: Sequence[str]
    agents: Sequence[str]
    statuses: Sequence[str]
    since: str | datetime
    until: str | datetime
    match: str


class LayerFields(TypedDict):
    """Another session of a recall. `weight` is what its places count, where those of the session
    asked count 1; `min_similarity` the least cosine of a hit with the question."""

    session: str
    weight: NotRequired[float]
    min_similarity: NotRequired[float]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, the same for every attempt. `path` starts behind the API's own."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    key: str | None = None
    needs_operator: bool = False
    is_write: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it again after a lost answer cannot do it twice."""
        return not self.is_write or self.key is not None


@dataclass(frozen=True, slots=True)
class Received:
    """A complete HTTP response. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    source: str = ""
    """Method and address, for messages."""


# -- requests --------------------------------------------------------------------------------------


def verb_call(
    session: str,
    verb: str,
    arguments: Mapping[str, Any],
    *,
    agent_id: str | None,
    key: str | None,
) -> Call:
    """The request of any verb of a session; an `agent_id` in the arguments wins."""
    if verb in GET_VERBS:
        if arguments:
            raise InvalidArgument(min(arguments), f"{verb} takes no argument {min(arguments)}")
        return Call("GET", session_path(session, verb), headers=_headers(agent_id=agent_id))
    if verb not in WRITE_VERBS | READ_VERBS:
        raise InvalidArgument("verb", f"there is no verb {verb!r:.60}")
    is_write = verb in WRITE_VERBS
    body = dict(arguments)
    if agent_id is not None:
        # In the body, where any script can be spelled; headers are for ASCII at heart.
        body.setdefault("agent_id", agent_id)
    return Call(
        "POST",
        session_path(session, verb),
        body=encode_body(body),
        headers=_headers(key=key if is_write else None),
        key=key if is_write else None,
        needs_operator=verb in OPERATOR_VERBS,
        is_write=is_write,
    )


def receipt_call(session: str, key: str, *, agent_id: str | None) -> Call:
    """Ask how the write under a key ended. Receipts are kept per agent."""
    path = f"{session_path(session, 'receipts')}/{path_segment('key', key)}"
    return Call("GET", path, headers=_headers(agent_id=agent_id))


def receipt_of(call: Call, session: str, agent_id: str | None) -> Call:
    """The question for the receipt of a write that is under way."""
    assert call.key is not None
    return receipt_call(session, call.key, agent_id=agent_id)


def create_session_call(session: str, *, agent_id: str | None) -> Call:
    return Call(
        "POST",
        "/sessions",
        body=encode_body({"session": session}),
        headers=_headers(agent_id=agent_id),
        is_write=True,
    )


def list_sessions_call(*, after: str | None, limit: int | None) -> Call:
    return Call("GET", "/sessions" + _query(after, limit))


def _query(after: str | None, limit: int | None) -> str:
    """The part of an address that asks for one page."""
    query = {"after": after, "limit": None if limit is None else str(limit)}
    given = "&".join(f"{name}={quote(text, safe='')}" for name, text in query.items() if text)
    return f"?{given}" if given else ""


def close_session_call(session: str, *, agent_id: str | None) -> Call:
    # Closing what is closed changes nothing, so this one may be repeated like a read.
    return Call("POST", session_path(session, "close"), headers=_headers(agent_id=agent_id))


def disappearances_call(
    session: str, *, after: str | None, limit: int | None, agent_id: str | None
) -> Call:
    return Call(
        "GET",
        session_path(session, "disappearances") + _query(after, limit),
        headers=_headers(agent_id=agent_id),
        needs_operator=True,
    )


def concepts_call(session: str, arguments: Mapping[str, Any]) -> Call:
    """A page of concepts; a list in the arguments is one pair of the address per entry."""
    try:
        query = urlencode(sorted(arguments.items()), doseq=True, errors="strict")
    except UnicodeEncodeError as error:
        raise _unencodable("agents", error) from error
    return Call("GET", session_path(session, "concepts") + (f"?{query}" if query else ""))


def reembed_call(session: str, *, start: bool, agent_id: str | None) -> Call:
    # Asking again reports on the run that is under way, so this one may be repeated like a read.
    return Call(
        "POST",
        session_path(session, "reembed"),
        body=encode_body({"start": start}),
        headers=_headers(agent_id=agent_id),
        needs_operator=True,
    )


def delete_session_call(session: str, *, confirm: str, agent_id: str | None) -> Call:
    path = f"/sessions/{session_segment(session)}"
    return Call(
        "DELETE",
        f"{path}?confirm={quote(confirm, safe='')}",
        headers=_headers(agent_id=agent_id),
        needs_operator=True,
        is_write=True,
    )


def session_path(session: str, verb: str) -> str:
    return f"/sessions/{session_segment(session)}/{verb}"


def session_segment(session: str) -> str:
    """A session's name in a path; one with a slash would be read as two steps however escaped."""
    if "/" in session:
        raise InvalidArgument("session", "session may not contain /")
    return path_segment("session", session)


def path_segment(field: str, name: str) -> str:
    """A name as one step of a path; refuses names that would lead elsewhere."""
    if not name.strip() or name in (".", ".."):
        raise InvalidArgument(field, f"{field} may not be blank, . or ..")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise _unencodable(field, error) from error


def encode_body(body: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8. Refuses text that no encoding can carry, and numbers JSON does not have."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise _unencodable("arguments", error) from error
    except ValueError as error:  # NaN, an infinity, or a list that contains itself
        raise InvalidArgument("arguments", f"arguments are not JSON: {error}") from error


def _unencodable(field: str, error: UnicodeEncodeError) -> InvalidArgument:
    code_point = f"U+{ord(error.object[error.start]):04X}"
    return InvalidArgument(field, f"{field} holds {code_point}, which is no character of text")


def given(**arguments: Any) -> dict[str, Any]:
    """The arguments that were given: None means "leave it to the server"."""
    return {name: value for name, value in arguments.items() if value is not None}


def recall_arguments(
    query: str,
    *,
    top_k: int | None = None,
    max_tokens: int | None = None,
    traversal_depth: int | None = None,
    vector: Iterable[float] | None = None,
    vector_model: str | None = None,
    wanted: Filter | None = None,
    layers: Iterable[LayerFields] = (),
) -> dict[str, Any]:
    """The arguments of a recall; what they mean says the method of that name."""
    return given(
        query=query,
        top_k=top_k,
        max_tokens=max_tokens,
        traversal_depth=traversal_depth,
        vector=None if vector is None else list(vector),
        vector_model=vector_model,
        layers=[dict(layer) for layer in layers] or None,
        **filter_arguments(wanted),
    )


def pairs(parent_of: Iterable[tuple[str, str]]) -> list[dict[str, str]] | None:
    """(parent, child) pairs in their wire form."""
    return [{"parent": parent, "child": child} for parent, child in parent_of] or None


def texts(values: Iterable[str]) -> list[str] | None:
    """A list of texts; None when empty. One bare string is a mistake that would go by letters."""
    if isinstance(values, str):
        raise TypeError("a list of texts is needed, not one text")
    return list(values) or None


def rfc3339(field: str, moment: str | datetime | None) -> str | None:
    """The wire form of an about-time; a datetime must know its zone."""
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise InvalidArgument(field, f"{field} must have a zone")
    return moment.isoformat()


def filter_arguments(wanted: Filter | None) -> dict[str, Any]:
    """The arguments of a filter, as they go over the wire."""
    arguments: dict[str, Any] = dict(wanted or {})
    for name in ("types", "agents", "statuses"):
        if name in arguments:
            arguments[name] = list(arguments[name])
    for name in ("since", "until"):
        if name in arguments:
            arguments[name] = rfc3339(name, arguments[name])
    return arguments


def _headers(*, key: str | None = None, agent_id: str | None = None) -> dict[str, bytes]:
    named = {"Idempotency-Key": key, "Lambo-Agent": agent_id}
    return {name: header_value(name, text) for name, text in named.items() if text is not None}


def bearer(token: str) -> bytes:
    """A token as a header. What is none is refused without being shown."""
    text = token.strip()
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise InvalidArgument("token", "the token is no token: it must look like lambo_..._...")
    return f"Bearer {text}".encode()


def run_job_call(arguments: Mapping[str, Any]) -> Call:
    # The server runs nothing twice at once and nothing that is not due: repeatable like a read.
    return Call("POST", "/jobs", body=encode_body(arguments), needs_operator=True)


def list_jobs_call() -> Call:
    return Call("GET", "/jobs", needs_operator=True)


def create_token_call(arguments: Mapping[str, Any]) -> Call:
    return Call("POST", "/tokens", body=encode_body(arguments), needs_operator=True, is_write=True)


def list_tokens_call() -> Call:
    return Call("GET", "/tokens", needs_operator=True)


def revoke_token_call(token_id: str) -> Call:
    # Revoking twice changes nothing, so this one may be repeated like a read.
    body = encode_body({"id": token_id})
    return Call("POST", "/tokens/revoke", body=body, needs_operator=True)


def header_value(name: str, text: str) -> bytes:
    """Text as a header: UTF-8 on one line."""
    field = name.lower().replace("-", "_").replace("lambo_agent", "agent_id")
    if not text.isprintable() or text != text.strip():
        raise InvalidArgument(field, f"{field} must be one line without space at its ends")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _unencodable(field, error) from error


# -- answers ---------------------------------------------------------------------------------------


def read_answer(received: Received) -> Answer | LamboError:
    """What a response says: an answer, or the error it stands for (returned, for the caller to
    raise or to try again)."""
    try:
        body = json.loads(received.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return _unexpected(received)
    if received.status >= 400:
        error = body.get("error")
        return error_from_wire(error) if isinstance(error, dict) else _unexpected(received)
    if received.status >= 300 or not isinstance(body.get("text"), str):
        return _unexpected(received)
    text = body.pop("text")
    key = body.pop("idempotency_key", None)
    return Answer(
        text=text,
        structured=body,
        warnings=list(body.get("warnings") or ()),
        idempotency_key=key,
        replayed=received.headers.get("idempotency-replayed", "").lower() == "true",
    )


def error_from_wire(wire: Mapping[str, Any]) -> LamboError:
    """The engine's error of that code; an unknown code keeps its name on a class made for it."""
    fields = dict(wire)
    code = str(fields.pop("code", "internal_error"))
    message = str(fields.pop("message", code))
    retry_after = fields.pop("retry_after_seconds", None)
    kind = _ERROR_BY_CODE.get(code)
    if kind is None:
        kind = type("RemoteError", (LamboError,), {"code": code, "__doc__": "A newer server's."})
    if issubclass(kind, InvalidArgument):
        error: LamboError = kind(str(fields.pop("field", "")), message)
    else:
        error = kind(message)
    # Not as keywords: the other side chooses the names.
    error.fields.update(fields)
    if isinstance(retry_after, int | float) and retry_after >= 0:
        error.retry_after_seconds = float(retry_after)
    return error


_ERROR_BY_CODE: Final[Mapping[str, type[LamboError]]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, LamboError)
}


def _unexpected(received: Received) -> UnexpectedAnswer:
    kind = received.headers.get("content-type", "no content type").partition(";")[0]
    return UnexpectedAnswer(
        f"{received.source} answered {received.status} ({kind}), which is no answer of this API; "
        "is this the address of a Lambo server?",
        status=received.status,
    )
