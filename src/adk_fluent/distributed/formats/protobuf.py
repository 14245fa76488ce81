"""A crossing as a protobuf message; `crossing.proto` beside this file says the same to other languages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from adk_fluent.distributed.crossing import Crossing, Happened
from adk_fluent.distributed.formats import VERSION, check_version
from adk_fluent.errors import SerializationError
from adk_fluent.state.delta import Typed

PACKAGE: Final = "adk_fluent.distributed.v1"
_MOST: Final = 2**63
_NAMES: Final = ("segment", "ir_hash", "run_id", "user_id", "session_id")
_EVENTS: Final = ("history", "events", "own")
_JSON: Final = ("message", "answer")

MESSAGES: Final[Mapping[str, tuple[tuple[str, str, int], ...]]] = {
    "Value": (
        ("null", "oneof bool", 1),
        ("truth", "oneof bool", 2),
        ("integer", "oneof sint64", 3),
        ("large", "oneof string", 4),
        ("number", "oneof double", 5),
        ("text", "oneof string", 6),
        ("blob", "oneof bytes", 7),
        ("list", "oneof Items", 8),
        ("tuple", "oneof Items", 9),
        ("dict", "oneof Entries", 10),
        ("field", "oneof Value", 11),
        ("surrogates", "oneof bytes", 12),
    ),
    "Items": (("items", "repeated Value", 1),),
    "Entry": (("key", "Value", 1), ("value", "Value", 2)),
    "Entries": (("entries", "repeated Entry", 1),),
    "Happened": (("event", "bytes", 1), ("delta", "Entries", 2)),
    "Error": (
        ("type", "string", 1),
        ("message", "string", 2),
        ("attributes", "bytes", 3),
        ("cause", "Error", 4),
    ),
    "Crossing": (
        ("version", "uint32", 1),
        ("needs", "uint32", 2),
        ("segment", "string", 3),
        ("ir_hash", "string", 4),
        ("run_id", "string", 5),
        ("user_id", "string", 6),
        ("session_id", "string", 7),
        ("message", "bytes", 8),
        ("state", "Entries", 9),
        ("history", "repeated Happened", 10),
        ("events", "repeated Happened", 11),
        ("own", "repeated Happened", 12),
        ("answer", "bytes", 13),
        ("streaming", "bool", 14),
        ("error", "Error", 15),
    ),
}
"""The messages: name → fields as (name, type, number). `bytes` of messages, events and attributes hold
JSON."""

_TYPES: Final = {
    "bool": 8, "sint64": 18, "string": 9, "double": 1, "bytes": 12, "uint32": 13,
}  # fmt: skip


@cache
def _classes() -> Mapping[str, Any]:
    """The class of each message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="adk_fluent/distributed/crossing.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, said, number in fields:
            *words, kind = said.split()
            label = 3 if "repeated" in words else 1
            made = message.field.add(name=field, number=number, label=cast(Any, label))
            if kind in _TYPES:
                made.type = cast(Any, _TYPES[kind])
            else:
                made.type, made.type_name = cast(Any, 11), f".{PACKAGE}.{kind}"
            if "oneof" in words:
                if not message.oneof_decl:
                    message.oneof_decl.add(name="kind")
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in MESSAGES
    }


def dump(crossing: Crossing) -> bytes:
    """The crossing as a `Crossing` message."""
    made = _classes()["Crossing"](version=VERSION, needs=1, streaming=crossing.streaming)
    for name in _NAMES:
        setattr(made, name, getattr(crossing, name))
    for name in _JSON:
        if (said := getattr(crossing, name)) is not None:
            setattr(made, name, json.dumps(said).encode())
    _put_state(made.state, crossing.state)
    for name in _EVENTS:
        for happened in getattr(crossing, name):
            added = getattr(made, name).add(event=json.dumps(happened.event).encode())
            if happened.delta:
                _put_state(added.delta, happened.delta)
    if crossing.error is not None:
        _put_error(made.error, crossing.error)
    return made.SerializeToString(deterministic=True)


def load(data: bytes) -> Crossing:
    """The crossing of a message; fields that are not known here are left out."""
    made = _classes()["Crossing"]()
    try:
        made.ParseFromString(data)
    except DecodeError as error:
        raise SerializationError(f"This is no protobuf message of a crossing: {error}.") from error
    check_version(made.needs)
    if not made.version:
        raise SerializationError("This protobuf message is not what crosses an execution boundary.")
    given: dict[str, Any] = {name: getattr(made, name) for name in _NAMES}
    given |= {name: json.loads(getattr(made, name)) if getattr(made, name) else None for name in _JSON}
    given |= {name: tuple(_happened(each) for each in getattr(made, name)) for name in _EVENTS}
    return Crossing(
        **given,
        state=_state(made.state),
        streaming=made.streaming,
        error=_error(made.error) if made.HasField("error") else None,
    )


def _happened(made: Any) -> Happened:
    return Happened(json.loads(made.event), _state(made.delta))


def _put_error(made: Any, error: Mapping[str, Any]) -> None:
    made.type = error["type"]
    made.message = error["message"].encode("utf-8", "replace").decode()  # half of a pair protobuf refuses
    made.attributes = json.dumps(error["attributes"]).encode()
    if error["cause"] is not None:
        _put_error(made.cause, error["cause"])


def _error(made: Any) -> dict[str, Any]:
    return {
        "type": made.type,
        "message": made.message,
        "attributes": json.loads(made.attributes) if made.attributes else {},
        "cause": _error(made.cause) if made.HasField("cause") else None,
    }


def _put_state(entries: Any, state: Mapping[Any, Any]) -> None:
    entries.SetInParent()
    for key, value in state.items():
        entry = entries.entries.add()
        _put(entry.key, key)
        _put(entry.value, value)


def _state(entries: Any) -> dict[Any, Any]:
    return {_value(entry.key): _value(entry.value) for entry in entries.entries}


def _put(made: Any, value: Any) -> None:
    """Write a plain value into a `Value` message."""
    match value:
        case None:
            made.null = True
        case bool():
            made.truth = value
        case int() if -_MOST <= value < _MOST:
            made.integer = int(value)
        case int():
            made.large = hex(value)
        case float():
            made.number = value
        case str():
            try:
                made.text = str(value)
            except (ValueError, UnicodeError):  # half of a pair, which protobuf refuses
                made.surrogates = value.encode("utf-8", "surrogatepass")
        case bytes():
            made.blob = bytes(value)
        case list():
            _put_items(made.list, cast("list[Any]", value))
        case tuple():
            _put_items(made.tuple, cast("tuple[Any, ...]", value))
        case Typed():
            _put(made.field, value.value)
        case _:
            _put_state(made.dict, value)


def _put_items(made: Any, values: Iterable[Any]) -> None:
    made.SetInParent()
    for value in values:
        _put(made.items.add(), value)


def _value(made: Any) -> Any:
    """The value of a `Value` message."""
    match made.WhichOneof("kind"):
        case "null":
            return None
        case "large":
            return int(made.large, 16)
        case "surrogates":
            return made.surrogates.decode("utf-8", "surrogatepass")
        case "list":
            return [_value(item) for item in made.list.items]
        case "tuple":
            return tuple(_value(item) for item in made.tuple.items)
        case "dict":
            return _state(made.dict)
        case "field":
            return Typed(_value(made.field))
        case None:
            raise SerializationError("A value is of a kind that is not known here; upgrade adk-fluent.")
        case kind:
            return getattr(made, kind)
