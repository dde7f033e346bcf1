"""Reading a payload into a model of arguments.

Knows no verb. Invariant: whatever is wrong with a payload, the caller meets one `InvalidArgument`,
of the mistake that stands first in the document, in the words the engine uses.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memory.argument_types import Arguments, Within
from memory.engine.errors import InvalidArgument
from memory.engine.text import check_text

MISTAKES_MAX: Final = 1_000
"""Above this many mistakes a payload is refused without looking for the first."""

_NAME_SHOWN_CHARS: Final = 64
_MAY_BE_BLANK: Final = frozenset({"chunk"})

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
        case "float_type":
            return f"{field} must be a number"
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
        if isinstance(mark, Within):
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
