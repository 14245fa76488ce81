"""Steps without a model: taps, transforms and captures."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.tools.tool_context import ToolContext

from adk_fluent import Agent, FanOut, Pipeline, S, tap
from adk_fluent.errors import ArgumentError, MissingKeyError, StateGuardError, TransformError
from adk_fluent.testing import call_tool
from tests.backends.support import ANYWAY, each, play, raises_from, speakers

A, B = Agent("a"), Agent("b")


async def test_a_tap_sees_the_state_and_adds_no_event() -> None:
    """A tap gets the state of that moment and leaves no trace in the run."""
    got: list[dict[str, Any]] = []
    result = await play(S.set(x=1) >> tap(lambda s: got.append(dict(s))) >> S.set(x=2) >> A)
    assert got == [{"x": 1}]
    assert [event.author for event in result] == ["set", "set_2", "a"]


async def test_an_async_tap_is_awaited() -> None:
    """A tap may be an async function."""
    got: list[Any] = []

    async def look(state: Any) -> None:
        got.append(state["x"])

    await play(S.set(x=1) >> tap(look) >> A)
    assert got == [1]


async def test_the_tap_method_runs_after_its_expression() -> None:
    """`expr.tap(fn)` looks at the state after `expr`."""
    got: list[Any] = []
    await play(A.writes("said").tap(lambda s: got.append(s["said"])) >> B)
    assert got == ["ok"]


@pytest.mark.parametrize(
    "meddle",
    each(
        lambda s: s["list"].append(4),
        lambda s: s["dict"]["inner"].append(4),
        lambda s: s["dict"].clear(),
        lambda s: s["pair"][0].append(4),
        lambda s: s.get("list").clear(),
        lambda s: [v.clear() for v in s.values() if isinstance(v, list)],
        lambda s: dict(s)["list"].clear(),
    ),
)
async def test_a_tap_cannot_change_the_state(meddle: Any) -> None:
    """What a tap does to lists and dicts it gets, however deep, does not reach the state."""
    values = {"list": [1], "dict": {"inner": [2]}, "pair": ([3],)}
    result = await play(
        S.set(**values) >> tap(meddle) >> S.compute(seen=lambda s: [s["list"], s["dict"], s["pair"]])
    )
    assert result.state["seen"] == [[1], {"inner": [2]}, ([3],)]
    assert {key: result.state[key] for key in values} == values


async def test_a_tap_cannot_write() -> None:
    """The state a tap gets has no way to assign or delete a key."""

    def assign(state: Any) -> None:
        state["x"] = 1

    with pytest.raises(TypeError):
        await play(tap(assign))


async def test_a_tap_that_raises_is_named() -> None:
    """An error of a tap names its step; the error itself is the cause."""
    problem = ValueError("tap")

    def fail(state: Any) -> None:
        raise problem

    with raises_from(ValueError, match="tap") as caught:
        await play(tap(fail) >> A)
    assert caught.value.__cause__ is problem


async def test_a_function_is_a_step() -> None:
    """A plain function from state to a dict writes that dict, at either side of `>>`."""

    def double(state: Any) -> dict[str, int]:
        return {"y": state["x"] * 2}

    assert (await play(S.set(x=2) >> double >> A)).state == {"x": 2, "y": 4}
    assert (await play(double >> A, state={"x": 3})).state == {"x": 3, "y": 6}


async def test_an_async_function_is_a_step() -> None:
    """The function may be async."""

    async def fetch(state: Any) -> dict[str, int]:
        return {"got": 1}

    assert (await play(A >> fetch)).state == {"got": 1}
    assert (await play(S.fn(fetch) >> A)).state == {"got": 1}


async def _async(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: S.guard(_async, "never"),
        lambda: S.when(_async, S.set(x=1)),
        lambda: S.compute(x=_async),
        lambda: S.transform("x", _async),
        lambda: S.merge("x", into="y", fn=_async),
        lambda: S.group_by("x", _async, into="y"),
    ],
)
def test_async_functions_are_refused_where_they_would_not_be_awaited(make: Any) -> None:
    """Where a value is needed at once, an async function is an error, not a value that is always true."""
    with pytest.raises(ArgumentError, match="takes a plain function"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: S.when("x", S.fn(_async)),
        lambda: S.branch("x", yes=S.fn(_async)),
        lambda: S.fn(_async) + S.set(y=1),
    ],
)
def test_async_transforms_cannot_hide_in_others(make: Any) -> None:
    """An async transform inside `when`, `branch` or `+` is refused with what to do instead."""
    with pytest.raises(ArgumentError, match=r"an async one can be a separate step, with >>"):
        make()


@pytest.mark.parametrize("nothing", [None, {}])
async def test_a_function_that_returns_nothing_adds_no_event(nothing: Any) -> None:
    """`None` and an empty dict change nothing, and no event is written."""
    result = await play(Pipeline("p", lambda s: nothing) >> A)
    assert [event.author for event in result] == ["a"]


async def test_writing_the_same_value_adds_no_event() -> None:
    """A transform whose result is what the state holds already writes nothing."""
    result = await play(S.set(x=[1]) >> S.set(x=[1]) >> S.set(x=[1, 2]))
    assert [event.state_delta for event in result] == [{"x": [1]}, {"x": [1, 2]}]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "int: 3"),
        ("text", "str: 'text'"),
        ([1], r"list: \[1\]"),
        ({1: 2}, r"dict: \{1: 2\}"),
        (True, "bool: True"),
    ],
)
async def test_a_function_that_returns_no_dict_is_named(value: Any, shown: str) -> None:
    """Anything but a dict of text keys is an error that names the step and shows the value."""

    def count(state: Any) -> Any:
        return value

    with pytest.raises(TransformError, match=f"^Transform 'count' returned {shown}. It must return a dict"):
        await play(A >> count)


async def test_a_function_that_raises_is_named() -> None:
    """An error of a transform names its step; the error itself is the cause."""
    problem = KeyError("inside")

    def fail(state: Any) -> None:
        raise problem

    with raises_from(KeyError) as caught:
        await play(A >> fail)
    assert caught.value.__cause__ is problem


async def test_a_function_cannot_change_what_it_got() -> None:
    """A transform works on copies: only what it returns is written."""

    def meddle(state: Any) -> dict[str, Any]:
        state["items"].append("meddled")
        return {"count": len(state["items"])}

    result = await play(meddle >> A, state={"items": ["x"]})
    assert result.state == {"items": ["x"], "count": 1}


async def test_adjacent_transforms_see_each_other() -> None:
    """Each of several transforms in a row sees what the one before it wrote."""
    steps = (
        S.set(a=1) >> S.compute(b=lambda s: s["a"] + 1) >> S.rename(b="c") >> S.drop("a") >> S.default(a=9)
    )
    assert (await play(steps >> A)).state == {"c": 2, "a": 9}


async def test_a_dropped_key_is_absent() -> None:
    """After `drop` a key is not in the state: not for `in`, not for `get`, not when listing."""
    got: list[Any] = []

    def look(state: Any) -> None:
        got.extend(["x" in state, state.get("x", "default"), list(state), len(state)])

    result = await play(S.set(x=1, y=2) >> S.drop("x") >> tap(look))
    assert got == [False, "default", ["y"], 1]
    assert result.state == {"y": 2}


async def test_pick_keeps_other_scopes() -> None:
    """`pick` removes session keys only."""
    start = {"x": 1, "y": 2, "user:u": 3, "app:a": 4, "temp:t": 5}
    result = await play(
        S.set(**start) >> S.pick("x") >> S.compute(t=lambda s: s.get("temp:t")), app_name="pick"
    )
    assert result.state["t"] == 5
    assert {k: v for k, v in result.state.items() if not k.startswith("temp:")} == {
        "x": 1, "user:u": 3, "app:a": 4, "t": 5
    }  # fmt: skip


async def test_a_guard_ends_the_run() -> None:
    """A guard that fails raises its message, and nothing after it runs."""
    with pytest.raises(StateGuardError, match="too cold"):
        await play(S.set(t=1) >> S.guard(lambda s: s["t"] > 3, "too cold") >> A)


async def test_a_missing_key_in_a_transform_is_named() -> None:
    """`S.transform` of a key that is not there names operation and key."""
    with pytest.raises(MissingKeyError, match=r"S\.transform needs state key 'n'"):
        await play(S.transform("n", lambda n: n + 1) >> A, config=ANYWAY)


async def test_temporary_keys_live_for_the_run() -> None:
    """A `temp:` key can be read by later steps of the run, in branches too, and is gone in the next."""
    check = S.compute(left=lambda s: s.get("temp:x"), right=lambda s: s.get("temp:x"))
    expression = S.set(**{"temp:x": "T"}) >> FanOut(A.instruct("{temp:x}"), check)
    result = await play(expression, session_id="temporary")
    assert (result.state["left"], result.state["right"]) == ("T", "T")
    later = await play(S.compute(later=lambda s: s.get("temp:x", "gone")), session_id="temporary")
    assert later.state["later"] == "gone"
    assert "temp:x" not in later.state


async def test_an_answer_can_be_a_temporary_key() -> None:
    """An agent may write a `temp:` key, and the next one reads it."""
    result = await play(
        A.writes("temp:draft") >> B.instruct("{temp:draft}") >> S.compute(d=lambda s: s["temp:draft"])
    )
    assert result.state["d"] == "ok"


async def test_a_run_may_start_with_temporary_state() -> None:
    """`run(state=)` may hold `temp:` keys, in a new session and in one that exists."""
    for turn in (1, 2):
        result = await play(
            S.compute(got=lambda s: s["temp:x"], n=lambda s: s.get("n", 0) + 1),
            state={"temp:x": "T"},
            session_id="starts-temporary",
        )
        assert (result.state["got"], result.state["n"]) == ("T", turn)


async def test_capture_writes_what_the_user_said() -> None:
    """`capture` copies the latest user message into state, whoever spoke since."""
    result = await play(A >> S.capture("question") >> B, prompt="what is it?")
    assert result.state == {"question": "what is it?"}


async def test_capture_takes_the_latest_of_several_turns() -> None:
    """In a later turn the message of that turn is captured."""
    await play(S.capture("q") >> A, prompt="first", session_id="capture")
    assert (await play(S.capture("q") >> A, prompt="second", session_id="capture")).state == {"q": "second"}


async def test_log_writes_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    """`S.log` logs the keys at INFO on `adk_fluent.state` and changes nothing."""
    with caplog.at_level("INFO", logger="adk_fluent.state"):
        result = await play(S.set(x=1) >> S.log("x", label="now"))
    assert [record.getMessage() for record in caplog.records if record.name == "adk_fluent.state"] == [
        "now: {'x': 1}"
    ]
    assert [event.author for event in result] == ["set"]


async def test_steps_only() -> None:
    """An expression without any agent runs, and has no answer."""
    result = await play(S.set(x=1) >> S.counter("x"))
    assert result.state == {"x": 2}
    assert result.text == ""
    assert speakers(result) == []


KEPT: list[Any] = [["was"]]


def give_kept(state: Any) -> dict[str, Any]:
    """Write a list that a module keeps."""
    return {"found": KEPT}


@pytest.mark.parametrize(
    "step",
    [
        S.set(found=[["was"]]),
        S.default(found=[["was"]]),
        S.compute(found=lambda state: KEPT),
        S.fn(give_kept, writes=["found"]),
        Pipeline("p", give_kept),
        S.identity() + S.set(found=[["was"]]),
        S.when(lambda state: True, S.set(found=[["was"]])),
        S.set(other=1) >> S.default(found=[["was"]]),
    ],
    ids=repr,
)
async def test_what_a_step_writes_is_the_same_in_every_run(step: Any) -> None:
    """What a tool does to a written value, in place, changes neither the step nor what its function keeps."""

    def append(tool_context: ToolContext) -> str:
        """Change a list in place."""
        here: list[str] = tool_context.state["found"][0]
        here.append("changed")
        return str(here)

    expression = step >> Agent("a").tool(append)
    for _ in range(2):
        result = await play(expression, {"a": [call_tool("append"), "done"]})
        (response,) = [response for event in result for response in event.tool_responses]
        assert response.result == {"result": "['was', 'changed']"}
    assert KEPT == [["was"]]
