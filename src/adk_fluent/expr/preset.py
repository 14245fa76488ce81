"""`Preset`: builder calls to apply to several agents."""

from __future__ import annotations

from inspect import signature
from typing import Any, Final, Unpack, cast

from adk_fluent.errors import ExpressionError
from adk_fluent.expr._generated import AgentMethodCalls
from adk_fluent.expr.agent import Agent
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.delta import detached


class AgentCalls(AgentMethodCalls, total=False):
    """The builder methods of `Agent`, each with what `Preset` takes for it."""

    accepts: object
    annotated: object
    artifacts: object
    consumes: object
    context: object
    delegate: object
    execution_boundary: object
    filtered: object
    generate: object
    global_instruct: object
    hide: object
    inject: object
    instruct: object
    isolate: object
    middleware: object
    model: object
    model_select: object
    no_peers: object
    outputs: object
    produces: object
    produces_modality: object
    reads: object
    returns: object
    schema: object
    show: object
    static: object
    stay: object
    stream_to: object
    strict: object
    sub_agents: object
    tool: object
    tools: object
    transparent: object
    writes: object


_METHODS: Final = AgentCalls.__optional_keys__


class Preset:
    """Named builder calls, checked now and applied with `Agent.use`.

    Args:
        methods: builder method → its argument; a tuple gives several arguments, `()` none, a dict keyword
            arguments.

    Raises:
        ExpressionError: `Agent` has no such method, and the message names the nearest; or the method does
            not take these arguments.

    Example:
        >>> from adk_fluent import Agent, Preset
        >>> house = Preset(model="gemini-2.5-flash", generate={"temperature": 0}, isolate=())
        >>> Agent("a").use(house).node.model
        'gemini-2.5-flash'
    """

    __slots__ = ("_calls",)

    def __init__(self, **methods: Unpack[AgentCalls]) -> None:
        for name, value in methods.items():
            if name not in _METHODS:
                raise ExpressionError(
                    f"Preset: Agent has no builder method {name!r}.{did_you_mean(name, _METHODS)}"
                )
            positional, named = _arguments(value)
            try:
                signature(getattr(Agent, name)).bind(None, *positional, **named)
            except TypeError as error:
                raise ExpressionError(f"Preset({name}=): {name}() cannot be called so: {error}.") from error
        self._calls = tuple((name, _own(value)) for name, value in methods.items())

    def apply(self, agent: Agent[Any]) -> Agent[Any]:
        """`agent` with every call applied, in order."""
        for name, value in self._calls:
            positional, named = _arguments(value)
            agent = getattr(agent, name)(*positional, **named)
        return agent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Preset) and self._calls == other._calls

    def __hash__(self) -> int:
        return hash(tuple(name for name, _ in self._calls))

    def __repr__(self) -> str:
        return f"Preset({', '.join(f'{name}={value!r}' for name, value in self._calls)})"


def _own(value: object) -> object:
    """The value with its lists and dicts copied, so that a caller who changes them changes no preset."""
    if isinstance(value, tuple):
        return tuple(detached(item) for item in cast("tuple[object, ...]", value))
    if isinstance(value, dict):
        return {name: detached(item) for name, item in cast("dict[str, object]", value).items()}
    return detached(value)


def _arguments(value: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(value, tuple):
        return cast("tuple[Any, ...]", value), {}
    if isinstance(value, dict):
        return (), cast("dict[str, Any]", value)
    return (value,), {}
