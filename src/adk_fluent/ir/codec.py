"""IR to JSON and back, and a hash that is the same on every machine.

Functions and types are stored by import path. Decoding looks them up in modules that are already
imported and never imports anything, so reading a stored graph runs no code.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FunctionType
from typing import Any, Final, cast

from adk_fluent.errors import CodecError
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.ir.functions import find, import_path
from adk_fluent.ir.nodes import NODE_TYPES

Json = Any
VERSION: Final = 1
_NODES: Final = {cls.__name__: cls for cls in NODE_TYPES}
_OWN_PACKAGE: Final = __name__.partition(".")[0] + "."


def to_dict(root: Node) -> dict[str, Json]:
    """The tree as JSON-able data.

    Raises:
        CodecError: a node holds a lambda, a local function or a live object that has no import path;
            the message names the node and the field.

    Example:
        >>> from adk_fluent import Agent
        >>> data = to_dict(Agent("writer", "gemini-2.5-flash").to_ir())
        >>> from_dict(data) == Agent("writer", "gemini-2.5-flash").to_ir()
        True
    """
    return {"version": VERSION, "root": _encode_node(root, _by_path)}


def from_dict(data: Mapping[str, Json]) -> Node:
    """The tree that `to_dict` wrote.

    Functions and types it names must be in modules that are imported already.

    Raises:
        CodecError: the data is not a stored tree, or names something that is not imported.
    """
    if not isinstance(data, Mapping) or data.get("version") != VERSION or "root" not in data:  # pyright: ignore[reportUnnecessaryIsInstance]  # data comes from a file
        raise CodecError(
            f"This is not a stored graph of version {VERSION}: expected keys 'version' and 'root'."
        )
    root = _decode(data["root"])
    if not isinstance(root, Node):
        raise CodecError("The stored graph has no node at its root.")
    return root


def ir_hash(root: Node) -> str:
    """A SHA-256 of the tree: equal trees hash equally in every process.

    A function without an import path counts by its name and byte code.
    """
    data = json.dumps(_encode_node(root, _by_code), sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(data.encode()).hexdigest()


Namer = Callable[[object, str], Json]


def _by_path(value: object, where: str) -> Json:
    path = import_path(value)
    if path is None:
        name = getattr(value, "__qualname__", None) or repr(value)
        raise CodecError(
            f"{where} holds {name}, which cannot be stored: only what has an import path can. "
            "Define it as a named function or class at the top level of a module."
        )
    return {"$ref": path}


def _by_code(value: object, where: str) -> Json:
    path = import_path(value)
    if path is None and isinstance(value, FunctionType):
        code = value.__code__
        return {"$code": [value.__qualname__, code.co_code.hex(), repr(code.co_consts), repr(code.co_names)]}
    return {"$ref": path or type(value).__qualname__}


def _encode_node(node: Node, namer: Namer) -> Json:
    where = f"{node.kind} {node.name!r}" if node.name else f"An unnamed {node.kind}"
    return {"$node": type(node).__name__, **_encode_fields(node, where, namer)}


def _encode_fields(value: object, where: str, namer: Namer) -> dict[str, Json]:
    encoded: dict[str, Json] = {}
    for field in fields(cast(Any, value)):
        item = getattr(value, field.name)
        if item is UNSET or _is_default(item, field.default):
            continue
        encoded[field.name] = _encode(item, f"{where}, field {field.name!r},", namer)
    return encoded


def _is_default(item: object, default: object) -> bool:
    return item is default or (type(item) is type(default) and item == default)


def _encode(value: object, where: str, namer: Namer) -> Json:
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Node():
            return _encode_node(value, namer)
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case Enum():
            return {"$enum": _type_path(value, where), "value": value.value}
        case tuple():
            return {"$tuple": [_encode(item, where, namer) for item in cast("tuple[object, ...]", value)]}
        case list():
            return [_encode(item, where, namer) for item in cast("list[object]", value)]
        case frozenset() | set():
            items = [_encode(item, where, namer) for item in cast("frozenset[object]", value)]
            return {"$set": sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}
        case dict():
            pairs = cast("dict[object, object]", value).items()
            return {"$dict": [[_encode(k, where, namer), _encode(v, where, namer)] for k, v in pairs]}
        case type() | FunctionType():
            return namer(value, where)
        case StateFieldRef():
            return {"$field": value.name, "schema": namer(value.schema, where)}
        case _ if is_dataclass(value) and type(value).__module__.startswith(_OWN_PACKAGE):
            return {"$value": _type_path(value, where), **_encode_fields(value, where, namer)}
        case _ if hasattr(value, "model_dump"):
            dumped = cast(Any, value).model_dump(mode="json", exclude_unset=True)
            return {"$model": _type_path(value, where), "data": dumped}
        case _:
            return namer(value, where)


def _type_path(value: object, where: str) -> str:
    path = import_path(type(value))
    if path is None:
        raise CodecError(f"{where} holds a {type(value).__qualname__}, whose class has no import path.")
    return path


def _decode(data: Json) -> object:
    if isinstance(data, list):
        return [_decode(item) for item in cast("list[Json]", data)]
    if not isinstance(data, dict):
        return data
    entries = cast("dict[str, Json]", data)
    tag = next(iter(entries), "")
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise CodecError(f"Unknown tag {tag!r} in a stored graph.")
    return decoder(entries)


def _decode_node(data: dict[str, Json]) -> object:
    cls = _NODES.get(data["$node"])
    if cls is None:
        raise CodecError(f"Unknown node type {data['$node']!r} in a stored graph.")
    return _construct(cls, data)


def _decode_value(data: dict[str, Json]) -> object:
    path = str(data["$value"])
    if not path.startswith(_OWN_PACKAGE):
        raise CodecError(f"{path} is not a value of adk-fluent.")
    return _construct(_resolve_type(path), data)


def _construct(cls: type, data: dict[str, Json]) -> object:
    values = {key: _decode(value) for key, value in data.items() if not key.startswith("$")}
    try:
        return cls(**values)
    except TypeError as error:
        raise CodecError(f"A stored {cls.__name__} does not fit: {error}.") from error


def _decode_model(data: dict[str, Json]) -> object:
    cls = cast(Any, _resolve_type(data["$model"]))
    if not hasattr(cls, "model_validate"):
        raise CodecError(f"{data['$model']} is not a pydantic model.")
    return cls.model_validate(data["data"])


def _decode_field(data: dict[str, Json]) -> object:
    schema = cast(Any, _decode(data["schema"]))
    found = schema.fields().get(data["$field"]) if hasattr(schema, "fields") else None
    if not isinstance(found, StateFieldRef):
        raise CodecError(f"The stored graph names field {data['$field']!r}, which {schema!r} does not have.")
    return found


def _decode_enum(data: dict[str, Json]) -> object:
    cls = _resolve_type(data["$enum"])
    if not issubclass(cls, Enum):
        raise CodecError(f"{data['$enum']} is not an enumeration.")
    return cls(data["value"])


def _resolve(path: str) -> object:
    found = find(path)
    if found is None:
        module = path.partition(":")[0]
        raise CodecError(
            f"The stored graph names {path}, which is not loaded. Import {module} first: reading a graph "
            "never imports code."
        )
    return found


def _resolve_type(path: str) -> type:
    found = _resolve(path)
    if not isinstance(found, type):
        raise CodecError(f"{path} is not a class.")
    return found


_DECODERS: Final[Mapping[str, Callable[[dict[str, Json]], object]]] = {
    "$node": _decode_node,
    "$value": _decode_value,
    "$model": _decode_model,
    "$enum": _decode_enum,
    "$field": _decode_field,
    "$ref": lambda data: _resolve(data["$ref"]),
    "$tuple": lambda data: tuple(_decode(item) for item in data["$tuple"]),
    "$set": lambda data: frozenset(_decode(item) for item in data["$set"]),
    "$dict": lambda data: {_decode(key): _decode(value) for key, value in data["$dict"]},
    "$bytes": lambda data: base64.b64decode(data["$bytes"]),
}
