"""The calls in a function that hand the state on: the called function, and the values of its parameters."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, cast

from adk_fluent.ir.state_names import FunctionCall, StateNames

_FRAMEWORKS: Final = ("google.adk.", "adk_fluent.")


class _Callee(NamedTuple):
    function: Callable[..., object]
    first: tuple[object, ...] = ()
    fixed: dict[str, object] = {}  # noqa: RUF012  # never changed


class Callees(StateNames):
    """Reads which functions of the user's a function calls with the state, a context or all its arguments."""

    def _call_of(self, node: ast.Call) -> FunctionCall | None:
        """The call of a function that receives the state; `None` if the source does not show all about it."""
        callee = self._callee(node.func)
        if callee is None or str(callee.function.__module__).startswith(_FRAMEWORKS):
            return None
        code = cast(FunctionType, callee.function).__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        fixed: dict[str, object] = {**callee.fixed, **dict(zip(names, callee.first, strict=False))}
        if self._forwards(node):
            return FunctionCall(callee.function, None, fixed)
        by_position = names[len(callee.first) : code.co_argcount]
        if any(isinstance(one, ast.Starred) for one in node.args) or len(node.args) > len(by_position):
            return None
        given = dict(zip(by_position, node.args, strict=False))
        given |= {one.arg or "": one.value for one in node.keywords}
        states = tuple(name for name, value in given.items() if self._leads_to_state(value))
        if not states or not given.keys() <= set(names):
            return None
        values = {name: self._value(value) for name, value in given.items() if name not in states}
        fixed |= {name: value for name, value in values.items() if value is not None}
        unknown = frozenset(name for name, value in values.items() if value is None)
        return FunctionCall(callee.function, states, fixed, unknown)

    def _holder(self, node: ast.expr) -> str | None:
        held = super()._holder(node)
        if held is None and isinstance(node, ast.Attribute) and node.attr == "state_delta":
            return self._event_named(node.value)
        return held

    def _event_named(self, node: ast.expr) -> str | None:
        """The holder of the keys of an event that the function made: `event` or `event.actions`."""
        node = node.value if isinstance(node, ast.Attribute) and node.attr == "actions" else node
        made = self._assigned.get(node.id) if isinstance(node, ast.Name) else None
        called = ast.unparse(made.func) if isinstance(made, ast.Call) else ""
        return event_of(made) if isinstance(made, ast.Call) and called.endswith(_EVENTS) else None

    def _forwards(self, node: ast.Call) -> bool:
        """True for `function(*args, **kwargs)`, as a decorator calls the function that it wraps."""
        stars = [one.value if isinstance(one, ast.Starred) else None for one in node.args]
        stars += [one.value if one.arg is None else None for one in node.keywords]
        names = {one.id if isinstance(one, ast.Name) else None for one in stars}
        return bool(names) and names == self._rest

    def _callee(self, node: ast.expr) -> _Callee | None:
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            if owner is not None and not isinstance(owner, ModuleType):
                return _method_of(owner, node.attr)
        return _callee_of(self._value(node)) if isinstance(node, ast.Name | ast.Attribute) else None


def event_of(node: ast.Call) -> str:
    """The holder of the keys that an event changes which this call makes."""
    return f"@{node.lineno}:{node.col_offset}"


_EVENTS: Final = ("Event", "EventActions")


def _callee_of(value: object) -> _Callee | None:
    if isinstance(value, FunctionType):
        return _Callee(value)
    if isinstance(value, MethodType):
        inner = _callee_of(value.__func__)
        return inner and inner._replace(first=(value.__self__, *inner.first))
    if isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        inner = _callee_of(partial.func)
        return inner and _Callee(
            inner.function, (*inner.first, *partial.args), {**inner.fixed, **partial.keywords}
        )
    return None


def _method_of(owner: object, name: str) -> _Callee | None:
    """The method that `owner.name` is, found without running code."""
    kind = owner if isinstance(owner, type) else type(owner)
    if not isinstance(owner, type) and name in getattr(owner, "__dict__", {}):
        return _callee_of(vars(owner)[name])
    held = inspect.getattr_static(kind, name, None)
    if isinstance(held, staticmethod):
        return _callee_of(cast(Any, held).__func__)
    if isinstance(held, classmethod):
        return _callee_of(MethodType(cast(Any, held).__func__, kind))
    if isinstance(held, FunctionType):
        return _Callee(held) if isinstance(owner, type) else _Callee(held, (owner,))
    return None
