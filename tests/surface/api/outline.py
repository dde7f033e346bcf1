"""Schemas as lines that people read in a review: one per argument, with its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def outline_api(document: Schema) -> str:
    """The OpenAPI document: addresses, parameters, bodies, names of replies."""
    lines: list[str] = []
    definitions = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines.append(f"{method.upper()} {path}  {operation['operationId']}")
            for parameter in operation["parameters"]:
                name = parameter["name"] + ("" if parameter["required"] else "?")
                lines.append(f"  {parameter['in']} {name}: {_bounds(parameter['schema'])}")
            if "requestBody" in operation:
                body = operation["requestBody"]["content"]["application/json"]["schema"]
                lines += [f"  body {line}" for line in _fields(body, definitions)]
            reply = operation["responses"][200]["content"]["application/json"]["schema"]["$ref"]
            lines.append(f"  -> {reply.rpartition('/')[2]}")
    return "\n".join(lines) + "\n"


def outline_replies(document: Schema) -> str:
    """The objects of replies, field by field."""
    lines: list[str] = []
    for name, schema in sorted(document["components"]["schemas"].items()):
        if "Argument" in name:
            continue
        lines.append(name)
        lines += [f"  {line}" for line in _fields(schema, {})]
    return "\n".join(lines) + "\n"


def outline_tools(tools: Iterator[tuple[str, Schema]]) -> str:
    """The arguments of tools."""
    lines: list[str] = []
    for name, schema in tools:
        lines.append(name)
        lines += [f"  {line}" for line in _fields(schema, {})]
    return "\n".join(lines) + "\n"


def _fields(schema: Schema, definitions: Schema, path: str = "") -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        mark = "" if name in required else "?"
        yield f"{path}{name}{mark}: {_bounds(field)}"
        item = _resolved(field.get("items", {}), definitions)
        if "properties" in item:
            yield from _fields(item, definitions, f"{path}{name}[].")


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    found: Schema = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
    return found


def _bounds(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_bounds(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " ".join(schema["enum"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        count = f"{schema.get('minItems', 0)}..{schema.get('maxItems', '')}"
        return f"list {count} of {_bounds(schema['items'])}"
    low = schema.get("minimum", schema.get("minLength", ""))
    high = schema.get("maximum", schema.get("maxLength", ""))
    bound = f" {low}..{high}" if (low, high) != ("", "") else ""
    default = f" = {schema['default']}" if schema.get("default") is not None else ""
    form = f" ({schema['format']})" if "format" in schema else ""
    return f"{kind}{bound}{form}{default}"
