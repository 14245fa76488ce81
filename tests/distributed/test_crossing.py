"""What crosses a boundary: as bytes and back, and nothing that nobody needs."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, C, S, StateSchema
from adk_fluent.backends.adk.events.stored import message_to_json
from adk_fluent.distributed import (
    Crossing,
    Happened,
    from_bytes,
    inward,
    outward,
    pack,
    split,
    to_bytes,
    unpack,
)
from adk_fluent.distributed.formats import protobuf
from adk_fluent.errors import MissingExtraError, SerializationError
from adk_fluent.state.delta import Typed
from tests.sampling import examples

FORMATS = ("json", "protobuf", pytest.param("arrow", marks=pytest.mark.newest))

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.binary(max_size=8),
)
keys = st.one_of(
    st.text(max_size=5), st.sampled_from(["$bytes", "$dict", "$field"]), st.integers(), st.booleans()
)
plain = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=12,
)
states = st.dictionaries(st.text(min_size=1, max_size=6), st.one_of(plain, plain.map(Typed)), max_size=5)
events = st.lists(
    st.builds(Happened, st.just({"author": "a", "content": {"parts": [{"text": "Hi ☂"}]}}), states),
    max_size=2,
).map(tuple)


def told(cause: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Errors as data, with what caused them."""
    return st.fixed_dictionaries(
        {
            "type": st.text(max_size=5),
            "message": st.text(max_size=5),
            "attributes": st.dictionaries(
                st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3)
            ),
            "cause": cause,
        }
    )


crossings = st.builds(
    Crossing,
    segment=st.text(min_size=1, max_size=8),
    run_id=st.text(max_size=8),
    message=st.none() | st.just({"role": "user", "parts": [{"text": "Hi"}]}),
    state=states,
    history=events,
    events=events,
    error=st.none() | st.recursive(told(st.none()), told, max_leaves=2),
)


def same(one: object, other: object) -> bool:
    """Equal, and of equal types all through: a `repr` tells `1`, `1.0` and `True` apart."""
    return repr(one) == repr(other)


@pytest.mark.parametrize("serialization", FORMATS)
@settings(max_examples=examples(40), deadline=None)
@given(crossing=crossings)
def test_what_crosses_comes_back(serialization: Any, crossing: Crossing) -> None:
    """Any plain data crosses and is the same, types included, in the state and in what events wrote."""
    back = from_bytes(to_bytes(crossing, serialization), serialization)
    assert back == crossing
    assert same(dict(back.state), dict(crossing.state))
    for one, other in zip(back.events, crossing.events, strict=True):
        assert same(dict(one.delta), dict(other.delta))


@pytest.mark.parametrize("serialization", FORMATS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.binary(max_size=60))
def test_bytes_that_are_no_crossing_are_one_clear_error(serialization: Any, data: bytes) -> None:
    """Whatever the bytes are, they are a crossing or a `SerializationError`."""
    with suppress(SerializationError):
        assert isinstance(from_bytes(data, serialization), Crossing)


def test_newer_fields_are_left_out_and_newer_formats_refused() -> None:
    """A writer that is newer adds fields that this reader does not miss; what it cannot read, it says."""
    crossing = Crossing(segment="heavy", state={"task": "sum"})
    data = json.loads(to_bytes(crossing))
    data |= {"version": 7, "priority": 3}
    data["events"] = [{"event": {}, "took": 1}]
    assert from_bytes(json.dumps(data).encode()) == Crossing(
        segment="heavy", state={"task": "sum"}, events=(Happened({}),)
    )
    with pytest.raises(SerializationError, match=r"needs version 2 .* Upgrade adk-fluent here"):
        from_bytes(json.dumps({**data, "needs": 2}).encode())


def test_newer_protobuf_fields_are_left_out_too() -> None:
    """An unknown field of the message is skipped; a message that needs a newer reader is refused."""
    crossing = Crossing(segment="heavy", state={"task": "sum"})
    data = to_bytes(crossing, "protobuf")
    unknown_field_200 = b"\xc0\x0c\x07"
    assert from_bytes(data + unknown_field_200, "protobuf") == crossing
    needs_9 = b"\x10\x09"
    with pytest.raises(SerializationError, match="needs version 9"):
        from_bytes(data + needs_9, "protobuf")


def test_the_proto_file_is_what_is_written() -> None:
    """`crossing.proto`, for other languages, declares the very messages."""
    lines = ['syntax = "proto3";', "", f"package {protobuf.PACKAGE};"]
    for name, fields in protobuf.MESSAGES.items():
        lines += ["", f"message {name} {{"]
        said = [(kind.removeprefix("oneof "), f"{field} = {number};") for field, kind, number in fields]
        inner = any(kind.startswith("oneof ") for _, kind, _ in fields)
        lines += ["  oneof kind {"] if inner else []
        lines += [f"{'    ' if inner else '  '}{kind} {rest}" for kind, rest in said]
        lines += ["  }"] if inner else []
        lines += ["}"]
    file = Path(str(protobuf.__file__)).with_name("crossing.proto").read_text()
    assert file == "\n".join(lines) + "\n"


@pytest.mark.newest
def test_arrow_keeps_lists_of_numbers_as_columns() -> None:
    """A list of numbers is a typed column; newer columns are left out, and newer formats refused."""
    pa: Any = import_module("pyarrow")
    crossing = Crossing(segment="heavy", state={"embedding": [0.5, 1.5], "mixed": [1, "a"]})
    data = to_bytes(crossing, "arrow")
    table = pa.ipc.open_stream(data).read_all()
    assert str(table.schema.field("state:embedding").type) == "large_list<item: double>"
    wider = table.append_column(pa.field("later", pa.int64(), metadata={b"adk_fluent.kind": b"new"}), [[1]])

    def stream(table: Any) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    assert from_bytes(stream(wider), "arrow") == crossing
    newer: dict[bytes, bytes] = {**(table.schema.metadata or {}), b"adk_fluent.needs": b"2"}
    with pytest.raises(SerializationError, match="needs version 2"):
        from_bytes(stream(table.replace_schema_metadata(newer)), "arrow")


def test_arrow_without_its_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the error names the extra, and what needs none."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "adk_fluent.distributed.formats.arrow", raising=False)
    with pytest.raises(MissingExtraError, match=r"the extra .arrow."):
        to_bytes(Crossing(segment="a"), "arrow")


class Order(StateSchema):
    """Typed state."""

    due: date
    task: str


FIELDS = {field.key: field for field in Order.fields().values()}


def test_a_schema_gives_back_what_is_no_plain_data() -> None:
    """A value of a schema's field crosses in its JSON form and is of its type again on the other side."""
    state = {"due": date(2026, 1, 2), "task": "sum"}
    packed = pack(state, FIELDS, "the boundary")
    crossing = Crossing(segment="heavy", state=packed)
    assert unpack(from_bytes(to_bytes(crossing)).state, FIELDS) == state
    with pytest.raises(SerializationError, match="'due' came as a value of a StateSchema"):
        unpack(packed, {})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [{1}]}, r"a set at \['a'\]\[0\]"),
        (object(), "an object"),
        ({(1,): 2}, "a tuple as a key of a dict"),
    ],
)
def test_what_is_no_plain_data_is_one_clear_line(value: object, said: str) -> None:
    """The key, what it holds and where, and what to write instead."""
    (_, second) = split(S.set(task="x") >> Agent("heavy").instruct("{task}").execution_boundary())
    match = f"State key 'task' cannot cross the execution boundary of 'heavy': it holds {said}.*Write text"
    with pytest.raises(SerializationError, match=match) as caught:
        inward(second, state={"task": value})
    assert "\n" not in str(caught.value)


def test_a_value_that_holds_itself_is_refused() -> None:
    """It is told, not followed for ever."""
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(SerializationError, match="inside one another"):
        pack({"a": endless}, {}, "here")


def said(author: str, text: str, **more: object) -> dict[str, object]:
    """An event as ADK writes it as JSON."""
    return {"author": author, "content": {"parts": [{"text": text}]}, **more}


def test_only_what_is_needed_crosses() -> None:
    """Of the state the keys that are read, of the conversation what is shown; deltas of others do not."""
    listener = Agent("heavy").instruct("{task}").context(C.from_agents("writer")).execution_boundary()
    pipeline = Agent("clerk").writes("secret") >> Agent("writer").writes("task") >> listener
    second = split(pipeline)[1]
    events = [
        said("clerk", "psst", actions={"stateDelta": {"secret": "s"}}),
        said("writer", "draft", actions={"stateDelta": {"task": "t"}, "escalate": True}),
        said("writer", "dr", partial=True),
    ]
    crossing = inward(second, state={"secret": "s", "task": "t", "temp:x": 1}, events=events)
    assert crossing.state == {"task": "t"}
    assert [happened.event for happened in crossing.events] == [
        said("writer", "draft", actions={"escalate": True})
    ]
    assert b"psst" not in to_bytes(crossing)


def test_what_comes_back_is_every_event_and_what_it_wrote() -> None:
    """`outward` keeps each event's own delta, without `temp:` keys; the last write of a key counts."""
    (only,) = split(Agent("a").writes("x"))
    back = outward(
        only, Crossing(segment="a", run_id="r"), [(said("a", "1"), {"x": 1, "temp:y": 2}), ({}, {"x": None})]
    )
    assert [dict(happened.delta) for happened in back.events] == [{"x": 1}, {"x": None}]
    assert back.state == {"x": None}


def test_a_piece_of_work_has_one_name() -> None:
    """The same run and segment have the same key however often they are delivered; others have others."""
    one = Crossing(segment="a", run_id="1")
    assert one.key == Crossing(segment="a", run_id="1", state={"x": 1}).key
    assert len({one.key, Crossing(segment="b", run_id="1").key, Crossing(segment="a", run_id="2").key}) == 3
    said = types.Content(parts=[types.Part(function_response=types.FunctionResponse(id="q", response={}))])
    answered = Crossing(segment="a", run_id="1", answer=message_to_json(said))
    assert answered.key != one.key
    assert Crossing(segment="a", run_id="1", answer={"parts": [{"text": "Go"}]}).key == one.key
