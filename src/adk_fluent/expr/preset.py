"""`Preset`: builder calls to apply to several agents."""

from __future__ import annotations

from typing import Any, cast

from adk_fluent.errors import ExpressionError, did_you_mean
from adk_fluent.expr.agent import Agent

_METHODS = frozenset(name for name in dir(Agent) if not name.startswith("_"))


class Preset:
    """Named builder calls, checked now and applied with `Agent.use`.

    Args:
        methods: method name → its argument; a tuple gives several arguments, `()` none.

    Raises:
        ExpressionError: `Agent` has no such method; the message names the nearest.

    Example:
        >>> from adk_fluent import Agent, Preset
        >>> house = Preset(model="gemini-2.5-flash", describe="In-house agent.", isolate=())
        >>> Agent("a").use(house).node.model
        'gemini-2.5-flash'
    """

    __slots__ = ("_calls",)

    def __init__(self, **methods: object) -> None:
        for name in methods:
            if name not in _METHODS:
                raise ExpressionError(f"Preset: Agent has no method {name!r}.{did_you_mean(name, _METHODS)}")
        self._calls = tuple(methods.items())

    def apply(self, agent: Agent[Any]) -> Agent[Any]:
        """`agent` with every call applied, in order."""
        for name, value in self._calls:
            arguments = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            agent = getattr(agent, name)(*arguments)
        return agent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Preset) and self._calls == other._calls

    def __hash__(self) -> int:
        return hash(tuple(name for name, _ in self._calls))

    def __repr__(self) -> str:
        return f"Preset({', '.join(f'{name}={value!r}' for name, value in self._calls)})"
