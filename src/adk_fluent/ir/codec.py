"""The codec from IR to JSON and back, and a hash that is the same on every machine.

Functions and types are stored by import path. Decoding looks them up in modules that are already
imported and imports nothing, so reading a stored graph runs no code.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from math import isfinite
from types import CodeType, FunctionType, GenericAlias, MethodType, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from adk_fluent.errors import CodecError, InvalidNameError, on_one_line
from adk_fluent.ir.adk_objects import Native, is_native, object_at, object_path
from adk_fluent.ir.annotations import Annotations
from adk_fluent.ir.base import UNSET, Node, root_of
from adk_fluent.ir.frozen import Frozen
from adk_fluent.ir.functions import bound_values, find, import_path, lasting, rebound_cells
from adk_fluent.ir.graph import check_name
from adk_fluent.ir.nodes import NODE_TYPES
from adk_fluent.ir.state_keys import StateFieldRef

Json = Any
VERSION: Final = 1
_NODES: Final = {cls.__name__: cls for cls in NODE_TYPES}
_OWN_PACKAGE: Final = __name__.partition(".")[0] + "."
_WORKFLOWS: Final = "adk_fluent.backends.adk.adopting.workflows"
_STORED_UNDER: Final = {
    "adk_fluent.ir.predicates:Match": "adk_fluent.ir.matching:Match",
    "adk_fluent.tools.spec:ArtifactTool": "adk_fluent.artifacts.tools:ArtifactTool",
    "adk_fluent.adopt.reading.workflow_shapes:GraphFunction": f"{_WORKFLOWS}:GraphFunction",
    "adk_fluent.adopt.reading.workflow_shapes:Onward": f"{_WORKFLOWS}:Onward",
    "adk_fluent.adopt.reading.workflow_shapes:Routed": f"{_WORKFLOWS}:Routed",
}
"""The place of a class → its place when graphs were first stored: so they stay readable and hash the same."""
_FOUND_AT: Final = {stored: now for now, stored in _STORED_UNDER.items()}


def to_dict(root: object) -> dict[str, Json]:
    """The tree as JSON-able data.

    Args:
        root: an IR node, or an expression.

    Raises:
        ArgumentError: it is neither.
        CodecError: a node holds a lambda, a local function or a live object that has no import path;
            the message names the node and the field.

    Example:
        >>> from adk_fluent import Agent
        >>> data = to_dict(Agent("writer", "gemini-2.5-flash"))
        >>> from_dict(data) == Agent("writer", "gemini-2.5-flash").to_ir()
        True
    """
    return {"version": VERSION, "root": _encode_node(root_of(root), _by_path)}


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
    try:
        root = _decode(data["root"])
    except RecursionError as error:
        raise CodecError("The stored graph is nested too deeply to be one.") from error
    if not isinstance(root, Node):
        raise CodecError("The stored graph has no node at its root.")
    return root


def ir_hash(root: object) -> str:
    """A SHA-256 of the tree, the same in every process of one Python version; equal trees have equal hashes.

    A function without an import path counts by its name, its byte code and what it holds that cannot change;
    any other live object by its type, also one that a function holds. Numbers count by type as well: `1`,
    `1.0` and `True` differ.

    Args:
        root: an IR node, or an expression.

    Raises:
        ArgumentError: it is neither.
    """
    return value_hash(root_of(root))


def value_hash(value: object) -> str:
    """The hash that `ir_hash` gives, of anything that a node can hold."""
    functions: list[object] = []

    def noted(held: object, where: str) -> Json:
        functions.append(held)
        return _by_code(frozenset(), held, where)

    encoded = _encode(value, "The value", noted)
    if rebound := rebound_cells(functions):  # only known once all functions are; few trees have any
        encoded = _encode(value, "The value", partial(_by_code, rebound))
    data = json.dumps(_canonical(encoded), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode()).hexdigest()


def only_here(root: object) -> list[str]:
    """The functions of a tree that another process has as others, if at all, each once.

    Args:
        root: an IR node, or an expression.

    Returns:
        The names of those without an import path, and of those in the script that is run.

    Raises:
        ArgumentError: it is neither.
    """
    found: dict[str, None] = {}

    def note(value: object, where: str) -> None:
        if isinstance(value, FunctionType):
            path = import_path(value)
            if path is None or path.startswith("__main__:"):
                found[value.__qualname__] = None

    _encode(root_of(root), "", note)
    return list(found)


def _canonical(data: Json) -> Json:
    """The same data with the entries of each dict in one order, as equality does not depend on it."""
    if isinstance(data, list):
        return [_canonical(item) for item in cast("list[Json]", data)]
    if not isinstance(data, dict):
        return data
    entries = {key: _canonical(value) for key, value in cast("dict[str, Json]", data).items()}
    for unordered in ("$dict", "$union"):
        if unordered in entries:
            entries[unordered] = sorted(entries[unordered], key=_text)
    return entries


def _text(data: Json) -> str:
    return json.dumps(data, sort_keys=True)


Namer = Callable[[object, str], Json]


def _path(value: object) -> str | None:
    """The path under which a function or class is stored; `None` if it has none."""
    path = import_path(value)
    return _STORED_UNDER.get(path, path) if path else None


def _by_path(value: object, where: str) -> Json:
    path = _path(value)
    if path is None:
        name = getattr(value, "__qualname__", None) or f"a {type(value).__qualname__}"
        raise CodecError(
            f"{where}: {name} cannot be stored, since it has no import path. "
            "Define it as a named function or class at the top level of a module."
        )
    return {"$ref": path}


def _by_code(rebound: frozenset[int], value: object, where: str) -> Json:
    if (path := _path(value)) is not None:
        return {"$ref": path}
    if isinstance(value, FunctionType):
        held = bound_values(value, rebound)
        return {**_code_of(value, where), "held": _encode(held, where, _code_of)}
    if isinstance(value, partial):
        call = cast("partial[object]", value)
        named = {name: lasting(item) for name, item in call.keywords.items()}
        bound = (call.func, lasting(call.args), named)
        return {"$partial": _encode(bound, where, partial(_by_code, rebound))}
    if isinstance(value, MethodType):
        return {"$method": [_by_code(rebound, value.__func__, where), type(value.__self__).__qualname__]}
    return {"$type": getattr(value, "__qualname__", type(value).__qualname__)}


def _code_of(value: object, where: str) -> dict[str, Json]:
    """A function by its code alone: what it holds may hold it again."""
    if isinstance(value, FunctionType):
        return {"$code": [value.__qualname__, _code(value.__code__)]}
    return {"$type": _path(value) or type(value).__qualname__}


def _code(value: object) -> Json:
    """Byte code with its constants, in a form that holds no addresses and no order of a set."""
    match value:
        case CodeType():
            return [value.co_code.hex(), list(value.co_names), [_code(item) for item in value.co_consts]]
        case frozenset():
            return sorted(repr(item) for item in cast("frozenset[object]", value))
        case _:
            return repr(value)


def _encode_node(node: Node, namer: Namer) -> Json:
    where = f"{node.kind} {node.name!r}" if node.name else f"An unnamed {node.kind}"
    return {"$node": type(node).__name__, **_encode_fields(node, f"{where}, field ", namer)}


def _encode_fields(value: object, where: str, namer: Namer) -> dict[str, Json]:
    encoded: dict[str, Json] = {}
    for field in fields(cast(Any, value)):
        item = getattr(value, field.name)
        if item is UNSET or _is_default(item, field.default):
            continue
        encoded[field.name] = _encode(item, where + field.name, namer)
    return encoded


def _is_default(item: object, default: object) -> bool:
    return item is default or (type(item) is type(default) and item == default)


def _encode(value: object, where: str, namer: Namer) -> Json:
    match value:
        case float() if not isfinite(value):
            return {"$float": str(value)}
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Node():
            return _encode_node(value, namer)
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case Enum():
            return {"$enum": _type_path(value, where, namer), "value": value.value}
        case tuple():
            return {"$tuple": [_encode(item, where, namer) for item in cast("tuple[object, ...]", value)]}
        case list():
            return [_encode(item, where, namer) for item in cast("list[object]", value)]
        case frozenset() | set():
            items = [_encode(item, where, namer) for item in cast("frozenset[object]", value)]
            return {"$frozenset" if isinstance(value, frozenset) else "$set": sorted(items, key=_text)}
        case dict():
            pairs = cast("dict[object, object]", value).items()
            return {"$dict": [[_encode(k, where, namer), _encode(v, where, namer)] for k, v in pairs]}
        case GenericAlias():
            return {
                "$generic": namer(value.__origin__, where),
                "of": [_encode(item, where, namer) for item in value.__args__],
            }
        case _ if get_origin(value) in (Union, UnionType):
            members = (None if member is type(None) else member for member in get_args(value))
            return {"$union": [_encode(member, where, namer) for member in members]}
        case type() | FunctionType():
            return namer(value, where)
        case Native():
            path = object_path(value.value)
            return namer(value.value, where) if path is None else {"$native": path}
        case StateFieldRef():
            return {"$field": value.name, "schema": namer(value.schema, where)}
        case Frozen() if _is_value(type(value)):
            stored = value.as_stored()
            return {"$value": _type_path(stored, where, namer), **_encode_fields(stored, f"{where}.", namer)}
        case _ if hasattr(value, "model_dump"):
            return _encode_model(value, where, namer)
        case _:
            return namer(value, where)


def _encode_model(value: object, where: str, namer: Namer) -> Json:
    try:
        dumped = cast(Any, value).model_dump(mode="json", exclude_unset=True)
    except ValueError:  # it holds what pydantic cannot write, such as a client
        return namer(value, where)
    return {"$model": _type_path(value, where, namer), "data": dumped}


def _type_path(value: object, where: str, namer: Namer) -> Json:
    return namer(getattr(value, "stored_as", None) or type(value), where)


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
    try:
        return decoder(entries)
    except (TypeError, ValueError, KeyError, AttributeError, InvalidNameError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else on_one_line(error)
        raise CodecError(f"A stored {tag[1:]} is malformed: {reason}.") from error


def _decode_node(data: dict[str, Json]) -> Node:
    cls = _NODES.get(str(data["$node"]))
    if cls is None:
        raise CodecError(f"Unknown node type {data['$node']!r} in a stored graph.")
    made = cast(Node, _construct(cls, data))
    if made.name != "":
        check_name(made.name, made.kind)
    if not isinstance(made.annotations, Annotations):  # pyright: ignore[reportUnnecessaryIsInstance]  # data comes from a file
        raise TypeError(f"the annotations of {cls.__name__} are {made.annotations!r}")
    children = cast(object, made.children)
    if not isinstance(children, tuple) or not all(
        isinstance(c, Node) for c in cast("tuple[object]", children)
    ):
        raise TypeError(f"the children of {cls.__name__} are {children!r:.60}, not a tuple of nodes")
    for field in _FUNCTIONS:
        if getattr(made, field, None) is not None and not callable(getattr(made, field)):
            raise TypeError(f"{field} of {cls.__name__} is no function but {getattr(made, field)!r:.60}")
    return made


_FUNCTIONS: Final = ("fn", "predicate", "condition", "until")


def _decode_value(data: dict[str, Json]) -> object:
    cls = _decode_type(data["$value"])
    if not _is_value(cls):
        raise CodecError(f"{data['$value']['$ref']} is not a value of adk-fluent.")
    return _construct(cast("type[Frozen]", cls), data)


def _is_value(cls: type) -> bool:
    """True for a class of the library's plain values, whose constructors have no side effects."""
    own = cls.__module__.startswith(_OWN_PACKAGE)
    return own and is_dataclass(cls) and issubclass(cls, Frozen) and not issubclass(cls, Node)


def _construct(cls: type[Frozen], data: dict[str, Json]) -> object:
    return cls.from_stored({key: _decode(value) for key, value in data.items() if not key.startswith("$")})


def _decode_model(data: dict[str, Json]) -> object:
    from pydantic import BaseModel

    cls = _decode_type(data["$model"])
    if not issubclass(cls, BaseModel):
        raise CodecError(f"{data['$model']['$ref']} is not a pydantic model.")
    return cls.model_validate_json(json.dumps(data["data"]))


def _decode_field(data: dict[str, Json]) -> object:
    schema = cast(Any, _decode(data["schema"]))
    found = schema.fields().get(data["$field"]) if hasattr(schema, "fields") else None
    if not isinstance(found, StateFieldRef):
        raise CodecError(f"The stored graph names field {data['$field']!r}, which {schema!r} does not have.")
    return found


def _decode_native(data: dict[str, Json]) -> object:
    found = object_at(str(data["$native"]))
    if found is None or not is_native(found):
        module = str(data["$native"]).partition(":")[0]
        raise CodecError(
            f"The stored graph names {data['$native']}, which is no agent that is loaded. Import {module} "
            "first: reading a graph never imports code."
        )
    return Native(found)


def _decode_enum(data: dict[str, Json]) -> object:
    cls = _decode_type(data["$enum"])
    if not issubclass(cls, Enum):
        raise CodecError(f"{data['$enum']['$ref']} is not an enumeration.")
    return cls(data["value"])


def _decode_generic(data: dict[str, Json]) -> object:
    return GenericAlias(_decode_type(data["$generic"]), tuple(_decode(item) for item in data["of"]))


def _decode_union(data: dict[str, Json]) -> object:
    return Union[tuple(_decode(member) for member in data["$union"])]  # noqa: UP007  # its members are a value


def _decode_type(data: Json) -> type:
    found = _resolve(data["$ref"])
    if not isinstance(found, type):
        raise CodecError(f"{data['$ref']} is not a class.")
    return found


def _resolve(path: str) -> object:
    """The function or class of that path; only what could have been stored under it is given out."""
    now = _FOUND_AT.get(path, path)
    found = find(now)
    if found is None:
        module = now.partition(":")[0]
        raise CodecError(
            f"The stored graph names {path}, which is not loaded. Import {module} first: reading a graph "
            "never imports code."
        )
    if import_path(found) != now:
        raise CodecError(f"The stored graph names {path}, which is not where that is defined.")
    return found


_DECODERS: Final[Mapping[str, Callable[[dict[str, Json]], object]]] = {
    "$node": _decode_node,
    "$value": _decode_value,
    "$model": _decode_model,
    "$enum": _decode_enum,
    "$native": _decode_native,
    "$field": _decode_field,
    "$generic": _decode_generic,
    "$union": _decode_union,
    "$ref": lambda data: _resolve(data["$ref"]),
    "$tuple": lambda data: tuple(_decode(item) for item in data["$tuple"]),
    "$set": lambda data: {_decode(item) for item in data["$set"]},
    "$frozenset": lambda data: frozenset(_decode(item) for item in data["$frozenset"]),
    "$dict": lambda data: {_decode(key): _decode(value) for key, value in data["$dict"]},
    "$bytes": lambda data: base64.b64decode(data["$bytes"]),
    "$float": lambda data: float(data["$float"]),
}
