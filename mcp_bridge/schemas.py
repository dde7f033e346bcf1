"""JSON schemas as agents see them: small, flat, without references.

Owns the rewriting of a pydantic model's schema for a tool list. Refuses recursive models: a schema
that cannot be written without `$ref` does not belong in a tool. Knows nothing of any one verb.

Invariant: pure functions of their argument, which is never changed. An input schema closes every
object, so that a misspelt argument is visible to the client too; an output schema stays open and
requires nothing, for the reasons at `output_schema`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from memory.engine.limits import AGENT_ID_BYTES

Schema = dict[str, Any]

NESTING_MAX: Final = 16
"""Levels of nested schemas before a model is taken to be recursive."""

# A text's maxLength counts characters and our rule counts bytes, of which there are never fewer:
# what is over the published bound is over the rule's too.
_NOISE: Final = frozenset({"title", "$defs", "examples", "discriminator"})
_OUTPUT_NOISE: Final = _NOISE | {
    "minLength", "maxLength", "required", "description", "default", "format", "pattern",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
}  # fmt: skip

AGENT_ID: Final[Schema] = {
    "type": "string",
    "maxLength": AGENT_ID_BYTES,
    "description": "Your own name.",
}
RELEASE: Final[Schema] = {"type": "boolean", "description": "true: give it back"}


def input_schema(raw: Mapping[str, Any]) -> Schema:
    """The schema of a tool's arguments: closed at every level, null never offered.

    Keeps names, types, choices, ranges, defaults and the descriptions of fields.

    An optional argument is left out rather than sent as null: one way to say a thing is easier for
    small models. The server still accepts null where the verb does.
    """
    return _compact(raw, raw.get("$defs", {}), output=False, depth=0)


def output_schema(raw: Mapping[str, Any]) -> Schema:
    """The schema of a tool's structured content: names and types only, open, nothing required.

    Some clients validate the structured content of *failed* calls too, and throw the error away
    when it does not fit. With nothing required and nothing forbidden, `{"error": {...}}` fits. It
    also lets a later server add a field without breaking a client that kept an older list.
    """
    return _compact(raw, raw.get("$defs", {}), output=True, depth=0)


def without_properties(raw: Mapping[str, Any], names: Collection[str]) -> Schema:
    """A copy of a model's schema in which no object, at any level, has properties so named."""
    return {
        key: {
            name: without_properties(child, names)
            for name, child in value.items()
            if name not in names
        }
        if key in ("properties", "$defs")
        else value
        for key, value in raw.items()
    }


def with_property(schema: Schema, name: str, value: Schema, *, required: bool) -> Schema:
    """A copy of an object schema in which `name` comes first, and is required or is not."""
    properties = {name: value} | {k: v for k, v in schema["properties"].items() if k != name}
    others = [key for key in schema.get("required", ()) if key != name]
    result = {**schema, "properties": properties}
    result.pop("required", None)
    names = [name, *others] if required else others
    return {**result, "required": names} if names else result


def _compact(
    node: Mapping[str, Any], defs: Mapping[str, Any], *, output: bool, depth: int
) -> Schema:
    if depth > NESTING_MAX:
        raise ValueError("a tool's model must not be recursive")
    if "$ref" in node:
        target = defs[str(node["$ref"]).rpartition("/")[2]]
        # What stands beside a reference (a description, a default) overrides what it names.
        node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
        return _compact(node, defs, output=output, depth=depth + 1)
    noise = _OUTPUT_NOISE if output else _NOISE
    result: Schema = {}
    for key, value in node.items():
        if key in noise or (key == "default" and value in (None, [])):
            continue  # leaving an optional argument out says the same
        if key == "properties":
            result[key] = {
                name: _compact(child, defs, output=output, depth=depth + 1)
                for name, child in value.items()
            }
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            result[key] = _compact(value, defs, output=output, depth=depth + 1)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            result[key] = [_compact(c, defs, output=output, depth=depth + 1) for c in value]
        elif key == "additionalProperties" and output:
            continue
        else:
            result[key] = value
    if not output and "properties" in result:
        result["additionalProperties"] = False
        # The docstring of a model is written for us; what stands beside a field is for agents.
        result.pop("description", None)
    return _fold(result, nullable=output)


def _fold(node: Schema, *, nullable: bool) -> Schema:
    """Replace a choice of one by that one, and a choice between a type and null by a short form."""
    for word in ("anyOf", "oneOf", "allOf"):
        if word not in node:
            continue
        rest = {k: v for k, v in node.items() if k != word}
        real = [choice for choice in node[word] if choice != {"type": "null"}]
        if len(real) != 1:
            return {**rest, word: node[word] if nullable else real}
        only = real[0]
        if len(real) == len(node[word]) or not nullable:
            return {**only, **rest}
        if isinstance(only.get("type"), str) and "enum" not in only:
            return {**only, **rest, "type": [only["type"], "null"]}
    return node
