"""JSON schemas that the engine enforces while it generates, bounded so that a tiny model finishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from google.genai import types
from pydantic import TypeAdapter

JsonSchema: TypeAlias = dict[str, Any]

# A small model left free fills a string, a list or the decimals of a number until it runs out of
# tokens. These bounds apply only where the schema sets none.
MAX_STRING = 160  # characters: one or two sentences
MAX_CODE = 40  # characters of a string with a pattern or format
MAX_ITEMS = 5
MAX_PROPERTIES = 5  # of a mapping with free keys
MAX_NUMBER = 1_000_000  # also the negative of the smallest
NUMBER_STEP = 0.01

# What the engine enforces. A keyword it does not know would switch the whole constraint off, so all
# others (titles, defaults, uniqueItems, ...) are left out.
# fmt: off
_KEPT = frozenset({
    "type", "enum", "const", "anyOf", "allOf", "$ref", "$defs",
    "properties", "required", "additionalProperties", "minProperties", "maxProperties",
    "items", "prefixItems", "minItems", "maxItems",
    "pattern", "format", "minLength", "maxLength",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
})
_FORMATS = frozenset({"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
# fmt: on
# How `google.genai.types.Schema` and JSON schema say the same thing.
_RENAMED = {"oneOf": "anyOf", "ref": "$ref", "defs": "$defs", "definitions": "$defs"}


def json_schema(source: object) -> JsonSchema:
    """The bounded JSON schema of anything ADK accepts as an output schema.

    `source` may be a pydantic class, a generic such as `list[str]`, a `types.Schema`, or either
    dialect of dict.

    >>> json_schema(bool)
    {'type': 'boolean'}
    """
    if isinstance(source, types.Schema):
        return bounded(source.model_dump(mode="json", by_alias=True, exclude_none=True))
    if isinstance(source, Mapping):
        return bounded({str(k): v for k, v in source.items()})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON of any shape
    return bounded(TypeAdapter[Any](cast(Any, source)).json_schema())


def bounded(schema: JsonSchema) -> JsonSchema:
    """`schema` with only enforceable keywords, and with bounds where it has none."""
    named = {_RENAMED.get(key, key): value for key, value in schema.items()}
    kept = {key: _nested(key, value) for key, value in named.items() if key in _KEPT}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    if not kept.keys() - {"$defs"}:
        kept["type"] = "string"  # anything is allowed, so the simplest
    result = kept | _bounds(kept)
    if schema.get("nullable"):
        return {"anyOf": [result, {"type": "null"}]}
    return result


def _nested(key: str, value: Any) -> Any:
    match key, value:
        case "type", str():
            return value.lower()
        case "type", list():
            return [str(name).lower() for name in value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON of any shape
        case "properties" | "$defs", dict():
            return {name: bounded(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON of any shape
        case "anyOf" | "allOf" | "prefixItems", list():
            return [bounded(inner) for inner in value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON of any shape
        case "items" | "additionalProperties", dict():
            return bounded(value)  # pyright: ignore[reportUnknownArgumentType]  # genai's type names the optional PIL
        case _:
            return value


def _bounds(schema: JsonSchema) -> JsonSchema:
    if schema.keys() & {"enum", "const", "$ref", "anyOf", "allOf"}:
        return {}
    declared = schema.get("type", "object" if "properties" in schema else [])
    names: list[str] = [declared] if isinstance(declared, str) else declared
    found: JsonSchema = {}
    for name in names:
        if rule := _BOUNDS.get(name):
            found |= rule(schema)
    return found


def _string(schema: JsonSchema) -> JsonSchema:
    shaped = schema.keys() & {"pattern", "format"}
    most = schema.get("maxLength", max(MAX_CODE if shaped else MAX_STRING, schema.get("minLength", 0)))
    return {"maxLength": most} | ({} if shaped else {"pattern": r"^[^\n]*$"})


def _number(schema: JsonSchema) -> JsonSchema:
    return {"multipleOf": schema.get("multipleOf", NUMBER_STEP)} | _integer(schema)


def _integer(schema: JsonSchema) -> JsonSchema:
    low, high = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
    return ({} if schema.keys() & low else {"minimum": -MAX_NUMBER}) | (
        {} if schema.keys() & high else {"maximum": MAX_NUMBER}
    )


def _array(schema: JsonSchema) -> JsonSchema:
    fixed = len(schema.get("prefixItems", ()))
    most = schema.get("maxItems", max(MAX_ITEMS, fixed, schema.get("minItems", 0)))
    return {"items": schema.get("items", bounded({})), "maxItems": most}


def _object(schema: JsonSchema) -> JsonSchema:
    extra = schema.get("additionalProperties", "properties" not in schema)
    if extra is False:
        return {"additionalProperties": False}
    known = len(schema.get("properties", ()))
    most = schema.get("maxProperties", max(MAX_PROPERTIES, known, schema.get("minProperties", 0)))
    return {"additionalProperties": bounded({}) if extra is True else extra, "maxProperties": most}


_BOUNDS: Mapping[str, Callable[[JsonSchema], JsonSchema]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "array": _array,
    "object": _object,
}
