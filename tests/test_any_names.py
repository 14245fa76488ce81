"""Names that users choose never collide with names of our own: of parameters, keys, resources, tools."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import CodeType, FunctionType
from typing import Any, cast

import pytest
from google.adk.tools.function_tool import FunctionTool

from adk_fluent import Agent, FanOut, Route, S, StateSchema, T, gate, loop_until, map_over, tap
from adk_fluent.errors import ArgumentError, ResourceError, SchemaError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend

_ADKS = frozenset({"tool_context", "callback_context", "input_stream", "ctx"})
"""Names under which ADK itself gives functions something."""


def _codes(value: object) -> Iterator[CodeType]:
    """The code of a function or class, and of all that is written inside it."""
    if isinstance(value, staticmethod | classmethod):
        value = cast(Any, value).__func__
    if isinstance(value, type):
        for each in vars(value).values():
            yield from () if isinstance(each, type) else _codes(each)
    elif isinstance(value, FunctionType | CodeType):
        code = value if isinstance(value, CodeType) else value.__code__
        yield code
        for inner in code.co_consts:
            yield from _codes(inner) if isinstance(inner, CodeType) else ()


@cache
def _names() -> tuple[str, ...]:
    """The names of parameters in our modules that a keyword of a user's could hit.

    Those are the parameters of every loaded function that takes keywords of any name (`**`).
    """
    FanOut(Agent("a").tool(len), Agent("b")).build()  # which loads what a run needs
    modules = [module for name, module in sys.modules.items() if name.startswith("adk_fluent.")]
    found = {
        name
        for module in modules
        for value in tuple(vars(module).values())
        if getattr(value, "__module__", None) == module.__name__
        for code in _codes(value)
        if code.co_flags & inspect.CO_VARKEYWORDS
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    }
    assert {"function", "self", "args", "step", "below", "node", "name"} <= found
    return tuple(sorted(name for name in found - _ADKS if not name.startswith("_")))


def _resources() -> tuple[str, ...]:
    return tuple(name for name in _names() if name not in ("state", "self"))


def _taking(names: Sequence[str], first: str = "", kind: str = "def", gives: str = "{'sum': total}") -> Any:
    """A function with parameters of these names behind others, which adds them up."""
    parameters = ", ".join((*filter(None, [first]), *(f"{name}: int" for name in names)))
    made: dict[str, Any] = {}
    code = f"{kind} taking({parameters}):\n 'Add.'\n total = {' + '.join(names)}\n return {gives}"
    exec(code, made)
    return made["taking"]


async def _called(agent: Agent[Any], **arguments: object) -> object:
    """The result of the agent's tool."""
    run = await agent.run("hi", backend=mock_backend({"a": [call_tool("taking", **arguments), "ok"]}))
    (result,) = [answer.result for event in run for answer in event.tool_responses]
    return result


async def _state(expression: Expr[Any], state: dict[str, Any] | None = None) -> dict[str, Any]:
    return (await expression.run("hi", backend=mock_backend(default="ok"), state=state or {})).state


@pytest.mark.parametrize(
    "tool",
    [
        lambda: _taking(_names()),
        lambda: _taking(_names(), kind="async def"),
        lambda: _taking(_names(), "tool_context"),
        lambda: T.fn(_taking(_names()), parallel=True),
        lambda: T.timeout(T.cache(T.retry(_taking(_names()), attempts=2), ttl=5), 60),
        lambda: T.transform(_taking(_names()), pre=dict),
        lambda: T.mock("taking", side_effect=_taking(_names())),
        lambda: FunctionTool(_taking(_names())),
    ],
    ids=["sync", "async", "context", "parallel", "wrapped", "transformed", "mocked", "native"],
)
async def test_a_parameter_of_a_tool_has_any_name(tool: Callable[[], Any]) -> None:
    """A model may call a tool with any of them."""
    assert await _called(Agent("a").tool(tool()), **dict.fromkeys(_names(), 1)) == {"sum": len(_names())}


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_resource_has_any_name(kind: str) -> None:
    """Tools, callbacks, steps, taps and predicates are given resources of any name but `state` and `self`."""
    names = _resources()
    given, total = dict.fromkeys(names, 1), {"sum": len(names)}
    step = _taking(names, "s", kind)
    truth = _taking(names, "s", kind, f"total == {len(names)} or 1 / 0")
    a = Agent("a")
    assert await _called(a.tool(_taking(names, kind=kind)).inject(**given)) == total
    assert (
        (await _state((S.fn(step) >> a).inject(**given)))
        == (await _state((step >> a).inject(**given)))
        == total
    )
    for predicate in (
        tap(truth) >> a,
        Route().when(truth, a).otherwise(Agent("b")),
        loop_until(truth, a, max_iterations=3),
        gate(truth, message="m") >> a,
    ):
        await _state(predicate.inject(**given))
    seen: list[int] = []
    for first, hook in (
        ("callback_context", "before_agent"),
        ("callback_context, llm_request", "before_model"),
    ):
        callback = _taking(names, first, kind, "seen.append(total)")
        callback.__globals__["seen"] = seen
        await _state(getattr(a, hook)(callback).inject(**given))
    assert seen == [len(names)] * 2


async def test_a_resource_may_have_the_name_of_what_adk_gives_a_callback() -> None:
    """A callback is given ADK's; a tool that takes a resource of that name is given the resource."""

    def taking(tool: int) -> int:
        return tool

    def look(tool: Any, args: dict[str, Any], tool_context: Any, extra: int) -> dict[str, Any] | None:
        return None if (tool.name, args, extra) == ("taking", {}, 2) else {"wrong": str(tool)}

    agent = Agent("a").tool(taking).before_tool(cast(Any, look))
    assert await _called(agent.inject(tool=1, args=3, extra=2)) == {"result": 1}


def test_a_resource_with_the_name_of_the_state_is_refused() -> None:
    """A parameter that is the state by its place and a resource by its name is found before a run."""

    def step(prices: Mapping[str, Any]) -> dict[str, Any]:
        return {"tea": prices["tea"]}

    pipeline = (step >> Agent("a")).inject(prices={"tea": 3})
    assert ("missing-resource", "step") in [(issue.code, issue.agent) for issue in pipeline.check().errors]
    with pytest.raises(
        ResourceError, match=r"'prices', which is the state by its place.*\(state, resource\)"
    ):
        pipeline.build()
    for name in ("state", "self"):
        with pytest.raises(ArgumentError, match=name):
            Agent("a").inject(**{name: 1})


async def test_a_state_key_has_any_name() -> None:
    """Steps that write keys given as keywords take any; so do items, branches and fields of a schema."""
    ones, a = dict.fromkeys(_names(), 1), Agent("a")
    computed: dict[str, Callable[[Any], int]] = {name: lambda state: 1 for name in _names()}
    for step in (S.set(**ones), S.default(**ones), S.compute(**computed)):
        assert await _state(step >> a) == ones
    renamed = {name: f"{name}_" for name in _names()}
    assert await _state(S.rename(**renamed) >> a, ones) == {f"{name}_": 1 for name in _names()}
    for name in ("below", "self", "state", "values", "others"):
        each = map_over("items", a.instruct(f"{{{name}}}"), item_key=name)
        assert (await _state(each, {"items": [1, 2]}))["results"] == ["ok", "ok"]
        assert (await _state(FanOut(a.writes(name), Agent("b"))))[name] == "ok"
    fields = type("Fields", (StateSchema,), {"__annotations__": dict.fromkeys(_names(), int)}).fields()
    written = await a.writes(*fields.values()).run("hi", backend=mock_backend({"a": json.dumps(ones)}))
    assert written.state == ones
    with pytest.raises(SchemaError, match="model_config"):
        type("Fields", (StateSchema,), {"__annotations__": {"model_config": int}})


async def test_a_tool_and_an_agent_have_any_name() -> None:
    """Names of tools and agents are values to us."""
    for name in ("function", "self", "name", "args"):
        tool = partial(_taking(["x"]))
        tool.__name__ = name  # pyright: ignore[reportAttributeAccessIssue]  # as a partial may have
        backend = mock_backend({name: [call_tool(name, x=1), "ok"]})
        assert (await Agent(name).tool(tool).run("hi", backend=backend)).text == "ok"
