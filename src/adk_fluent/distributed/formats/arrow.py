"""A crossing as an Arrow stream of one row: a typed column for each state key that is text, numbers or lists.

So a list of a million numbers crosses as it lies in memory. What Arrow's types do not keep exactly, and all
that is not state, is JSON in a column of bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, cast

from adk_fluent.distributed.crossing import Crossing
from adk_fluent.distributed.formats import VERSION, check_version
from adk_fluent.distributed.formats import json as as_json
from adk_fluent.errors import MissingExtraError, SerializationError, install

try:
    pa: Any = import_module("pyarrow")  # which says nothing about its types
except ImportError as _error:
    raise MissingExtraError(
        f"serialization='arrow' needs pyarrow: {install('arrow')}, or take 'json' or 'protobuf'."
    ) from _error

_REST: Final = "crossing"
_STATE: Final = "state:"
_NEEDS: Final = b"adk_fluent.needs"
_KIND: Final = b"adk_fluent.kind"


def dump(crossing: Crossing) -> bytes:
    """The crossing as an Arrow stream."""
    columns: list[Any] = [pa.array([as_json.dump(replace(crossing, state={}))], pa.large_binary())]
    fields: list[Any] = [pa.field(_REST, pa.large_binary(), metadata={_KIND: b"rest"})]
    for key, value in crossing.state.items():
        kind = _type_of(value)
        held = value if kind is not None else json.dumps(as_json.encoded(value)).encode()
        metadata = {_KIND: b"json"} if kind is None else {_KIND: b"typed"}
        fields.append(pa.field(_STATE + key, kind or pa.large_binary(), metadata=metadata))
        columns.append(pa.array([held], fields[-1].type))
    schema = pa.schema(fields, metadata={b"adk_fluent.version": str(VERSION).encode(), _NEEDS: b"1"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return sink.getvalue().to_pybytes()


def load(data: bytes) -> Crossing:
    """The crossing of an Arrow stream; columns of kinds that are not known here are left out."""
    try:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise SerializationError(f"This is no Arrow stream of a crossing: {error!s:.120}") from error
    schema: Any = table.schema
    said: dict[bytes, bytes] = schema.metadata or {}
    needs = said.get(_NEEDS)
    if needs is None or table.num_rows != 1:
        raise SerializationError("This Arrow stream is not what crosses an execution boundary.")
    check_version(int(needs))
    state: dict[str, Any] = {}
    rest: Any = None
    for field, column in zip(schema, table.columns, strict=True):
        about: dict[bytes, bytes] = field.metadata or {}
        kind, value = about.get(_KIND), column[0].as_py()
        if kind == b"rest":
            rest = as_json.load(value)
        elif kind == b"json":
            state[field.name.removeprefix(_STATE)] = as_json.decoded(json.loads(value))
        elif kind == b"typed":
            state[field.name.removeprefix(_STATE)] = value
    return replace(cast(Crossing, rest), state=state)


def _type_of(value: object) -> Any:
    """The Arrow type that keeps a value exactly; `None` if none does."""
    kind = type(value)
    if kind is bool:
        return pa.bool_()
    if kind is int:
        return pa.int64() if -(2**63) <= cast(int, value) < 2**63 else None
    if kind is float:
        return pa.float64()
    if kind is bytes:
        return pa.large_binary()
    if kind is str:
        return pa.large_string() if _is_unicode(cast(str, value)) else None
    if kind is list and value:
        return _list_of(cast("list[Any]", value))
    return None


def _list_of(values: Sequence[Any]) -> Any:
    inner = _type_of(values[0])
    if inner is None or any(type(item) is not type(values[0]) for item in values):
        return None
    if type(values[0]) not in (bool, float) and any(_type_of(item) != inner for item in values):
        return None
    return pa.large_list(inner)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
