"""`Preset`: settings that several agents share."""

from __future__ import annotations

from inspect import signature
from typing import Any, Final, Unpack, cast

from adk_fluent.errors import ExpressionError
from adk_fluent.expr._generated import AgentMethodCalls
from adk_fluent.expr.agent import Agent
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.delta import detached


class AgentCalls(AgentMethodCalls, total=False):
    """The builder methods of `Agent` that `Preset` accepts as keyword arguments."""

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
    """Calls of builder methods, which are checked at once and applied to an agent by `Agent.use`.

    Args:
        methods: the argument of each builder method: a tuple holds several arguments, `()` none, and a dict
            keyword arguments.

    Raises:
        ExpressionError: `Agent` has no such method (the message names the nearest), or the method does not
            accept these arguments.

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
                raise ExpressionError(f"Preset({name}=): {name}() does not accept this: {error}.") from error
        self._calls = tuple((name, _own(value)) for name, value in methods.items())

    def apply(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the agent with all calls applied, in order."""
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
    """Copy the lists and dicts in a value, so that later changes of theirs do not change the preset."""
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
