"""Results and events as data: pickled, copied, and as JSON."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import fields
from datetime import date
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, Pipeline, S, gate
from adk_fluent.backends.answering import Answers
from adk_fluent.backends.events import AgentEvent, Pending, RunResult, ToolResponseInfo, Usage
from adk_fluent.errors import AnswerError, MissingKeyError
from adk_fluent.testing import call_tool
from tests.backends.support import play, replies, said, script

A, B = Agent("a"), Agent("b")
PNG = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")

Copying = Callable[[Any], Any]
COPIES: dict[str, Copying] = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    **{f"pickle {n}": lambda r, n=n: pickle.loads(pickle.dumps(r, n)) for n in range(2, 6)},
    "pickled twice": lambda result: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result)))),
}
copies = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


class Size(BaseModel):
    size: int


def order(size: int = 1) -> dict[str, int]:
    """Order something."""
    return {"ordered": size}


async def rich() -> RunResult[Any]:
    """A result with something of everything: branches, tools, files, writes, a structured answer."""
    image = types.Content(role="model", parts=[types.Part(text="look"), PNG])
    expression = (
        S.set(x=1) >> (A.tool(order).writes("said") | B) >> A.tool(order).writes("said") >> Agent("c") @ Size
    )
    answers = {"a": [call_tool("order", size=2), "done", "again"], "b": image, "c": {"size": 3}}
    return await play(expression, answers)


@copies
async def test_a_copied_result_is_the_same(copied: Copying) -> None:
    """A result that was pickled or copied has all that the original has, also what is worked out."""
    result = await rich()
    again: RunResult[Any] = copied(result)
    assert isinstance(again, RunResult)
    assert list(again) == list(result)
    assert (again.text, again.output, again.state) == (result.text, Size(size=3), result.state)
    assert (again.session_id, again.invocation_id) == (result.session_id, result.invocation_id)
    assert (again.usage, again.pending, again.visible) == (result.usage, [], result.visible)
    assert {key for key, _ in again.usage} == {"a", "b", "c"}
    assert said(again.by("a")) == [("a", "done"), ("a_2", "again")]
    assert again[-1].visibility == "user"


@copies
async def test_a_copied_result_has_the_native_events(copied: Copying) -> None:
    """ADK's own events come with it."""
    result = await rich()
    again = copied(result)
    assert all(event.raw is not None for event in again)
    assert [event.raw for event in again] == [event.raw for event in result]
    assert PNG in [part for event in again for part in event.parts]


@copies
async def test_a_copied_result_that_waits(copied: Copying) -> None:
    """What a run waits for is there, and its run can be resumed."""
    expression = A >> gate(lambda state: True, message="Send it?") >> B
    again = copied(await play(expression))
    (pending,) = again.pending
    assert (pending.message, again.text) == ("Send it?", "")
    rest = await expression.resume(
        session_id=again.session_id, approvals={pending.id: True}, backend=script()
    )
    assert rest.pending == []


@copies
async def test_a_copied_result_without_an_answer(copied: Copying) -> None:
    """That there is no answer is the same error again."""
    result = await play(A @ Size, {"a": ""})
    with pytest.raises(AnswerError) as first:
        _ = result.output
    again = copied(result)
    for _ in range(2):
        with pytest.raises(AnswerError) as second:
            _ = again.output
        assert str(second.value) == str(first.value)


async def test_a_copy_leaves_the_result_as_it_was() -> None:
    """Copying a result changes neither it nor what its copy shares with it."""
    result = await rich()
    again = copy.deepcopy(result)
    again.state["x"] = 2
    again[-1].state_delta["y"] = 3
    assert result.state["x"] == 1
    assert result[-1].state_delta == {}
    assert result.output == again.output


async def test_a_result_is_pickled_without_what_made_it() -> None:
    """Neither functions nor models of the expression are in the way, though they cannot be pickled."""
    expression = Pipeline("p", lambda state: {"n": 1}, A @ Size)
    result = await play(expression, {"a": replies(lambda request: {"size": 1})})
    assert pickle.loads(pickle.dumps(result)).output == Size(size=1)


def test_a_result_made_by_hand() -> None:
    """So it is with a result that somebody else than a run made."""
    events = [AgentEvent("a", "3", is_final=True)]
    result: RunResult[int] = RunResult(events, parse=Answers({"a": int}, {}), state={"x": 1})
    again = pickle.loads(pickle.dumps(result))
    assert (again.output, again.text, again.state) == (3, "3", {"x": 1})


# --- JSON -----------------------------------------------------------------------------------------


async def test_events_as_json() -> None:
    """Every event becomes JSON: the same keys in the same order, one for each field but `raw`."""
    names = [field.name for field in fields(AgentEvent) if field.name != "raw"]
    for event in await rich():
        data = event.to_dict()
        assert list(data) == names
        assert json.loads(event.to_json()) == data
        assert json.loads(json.dumps(data)) == data


async def test_what_an_event_is_in_json() -> None:
    """Calls, results, usage and parts are plain objects; bytes are text."""
    result = await rich()
    call = next(e for e in result if e.tool_calls)
    response = next(e for e in result if e.tool_responses)
    (called,) = call.to_dict()["tool_calls"]
    assert (called["tool_name"], called["args"]) == ("order", {"size": 2})
    (answered,) = response.to_dict()["tool_responses"]
    assert (answered["tool_name"], answered["result"]) == ("order", {"ordered": 2})
    assert set(call.to_dict()["usage"]) == {"calls", "input_tokens", "output_tokens", "cached_tokens"}
    (part,) = next(e for e in result if e.parts).to_dict()["parts"]
    assert part == {"inline_data": {"data": "iVBORw==", "mime_type": "image/png"}}


def test_values_that_json_does_not_know() -> None:
    """Models, dates, sets and bytes become what is nearest; anything else its `repr`; NaN nothing."""

    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    event = AgentEvent(
        "a",
        state_delta={
            "model": Size(size=1),
            "date": date(2000, 1, 2),
            "set": {1},
            "bytes": b"\x89",
            "odd": Odd(),
            "nan": float("nan"),
            "keys": {1: {(2, 3): Odd}},
        },
        tool_responses=[ToolResponseInfo("t", Odd(), "1")],
        usage=Usage(1, 2, 3),
        pending=(Pending("id", "a", "sure?", {"args": {"x": Odd()}}),),
    )
    data = event.to_dict()
    delta = data["state_delta"]
    assert (delta["model"], delta["date"], delta["set"]) == ({"size": 1}, "2000-01-02", [1])
    assert (delta["bytes"], delta["odd"], delta["nan"]) == ("iQ==", "<odd>", None)
    assert list(delta["keys"]) == ["1"]
    assert data["tool_responses"] == [{"tool_name": "t", "result": "<odd>", "call_id": "1"}]
    assert data["usage"] == {"calls": 1, "input_tokens": 2, "output_tokens": 3, "cached_tokens": 0}
    assert data["pending"] == [
        {
            "id": "id",
            "agent": "a",
            "message": "sure?",
            "payload": {"args": {"x": "<odd>"}},
            "kind": "approval",
        }
    ]
    assert json.loads(json.dumps(data, allow_nan=False)) == data


async def test_a_result_is_shown_in_one_line() -> None:
    """`repr` says how many events there are, the answer, and which keys the state has."""
    result = await (Agent("a").writes("x")).run("hi", backend=script({"a": "hello " * 100}))
    shown = repr(result)
    assert shown.startswith("<RunResult of 1 events, text='hello hello")
    assert shown.endswith("h…', state=['x']>")
    assert len(shown) < 160


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"answer": 42, "topic": "tea"}, "Did you mean 'answer'?"),
        ({"topic": "tea"}, "It has 'topic'."),
        ({f"key{number}": number for number in range(12)}, "It has 'key0', 'key1', 'key2', 'key3', 'key4', "),
        ({}, "It is empty."),
    ],
)
def test_an_absent_key_of_the_state_is_named_with_the_nearest(state: dict[str, Any], said: str) -> None:
    """A `KeyError` as before, also from a copy; all else is a plain dict's."""
    made: RunResult[str] = RunResult(state=state)
    for result in (made, pickle.loads(pickle.dumps(made))):
        assert (result.state, repr(result.state), result.state.get("answr")) == (state, repr(state), None)
        with pytest.raises(KeyError) as caught:
            _ = result.state["answr"]
        assert str(caught.value).startswith(f"The state after the run has no 'answr'. {said}")
        assert isinstance(caught.value, MissingKeyError)
