"""The state keys that functions use, found in their source; see `sighting`."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from adk_fluent.ir.sighting import NO_SIGHTINGS, Sightings
from adk_fluent.ir.state_names import FunctionSource
from adk_fluent.ir.statements import BodyReader

_known: WeakKeyDictionary[Callable[..., object], dict[bool, Sightings]] = WeakKeyDictionary()
_CONTEXTS: Final = frozenset(
    {"tool_context", "callback_context", "readonly_context", "invocation_context", "context", "ctx"}
)
_STATES: Final = frozenset({"state", "s", "st", "_state", "view", "values"})
"""The usual names of the state parameter in functions that also have other parameters."""


def sightings(value: object) -> Sightings:
    """The uses of state in the source of a function, a callable object, a tool of ADK's or a class of agents.

    >>> def note(topic: str, tool_context) -> None:
    ...     tool_context.state["topic"] = topic
    >>> sightings(note).whole, sightings(note).writes[0].key
    (True, 'topic')
    """
    if isinstance(value, type):
        return _of_class(value)
    function = (
        value if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__") else _function(value)
    )
    if function is None:
        return NO_SIGHTINGS
    bound = function is not value and not isinstance(_innermost(value), FunctionType)
    if (given := _given_by_partial(value)) is not None:
        found = _read(function, given=given, bound=bound)
    else:
        known = _known.setdefault(function, {})
        if bound not in known:
            known[bound] = _read(function, bound=bound)
        found = known[bound]
    return found.replace(whole=False) if hasattr(value, "__wrapped__") else found  # what wraps it may do more


def _of_class(cls: type) -> Sightings:
    own = [
        base
        for base in cls.__mro__
        if not base.__module__.startswith(("google.", "pydantic", "builtins", "abc"))
    ]
    methods = [method for base in own for method in vars(base).values() if isinstance(method, FunctionType)]
    found = [_read(method, bound=True) for method in methods]
    return Sightings(
        tuple(read.replace(level=read.softened) for one in found for read in one.reads),
        tuple(write.replace(always=False) for one in found for write in one.writes),
    )


def _innermost(value: object) -> object:
    while isinstance(value, functools.partial):
        value = cast("functools.partial[object]", value).func
    return value


def _given_by_partial(value: object) -> tuple[int, dict[str, object]] | None:
    """The number of positional arguments in a `functools.partial`, and its arguments by name."""
    if not isinstance(value, functools.partial):
        return None
    partial = cast("functools.partial[object]", value)
    inner = _given_by_partial(partial.func) or (0, {})
    return inner[0] + len(partial.args), {**inner[1], **partial.keywords}


def _function(value: object) -> FunctionType | None:
    """The Python function behind a callable or a tool."""
    value = _innermost(value)
    value = inspect.unwrap(value) if callable(value) else value
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        return value
    for name in ("run_async", "__call__"):
        method = getattr(type(value), name, None)
        if isinstance(method, FunctionType) and not method.__module__.startswith("google."):
            return method
    return None


@functools.lru_cache(maxsize=256)
def _functions_in(file: str) -> Mapping[tuple[int, str], list[FunctionSource]]:
    """The functions of a file, by their first line, decorators included, and their name."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[tuple[int, str], list[FunctionSource]] = {}
    for node in ast.walk(tree):
        if isinstance(node, FunctionSource):
            above = [] if isinstance(node, ast.Lambda) else [one.lineno for one in node.decorator_list]
            key = min([node.lineno, *above]), getattr(node, "name", "<lambda>")
            found.setdefault(key, []).append(node)
    return found


def _node_of(code: CodeType) -> FunctionSource | None:
    """The syntax node of a function; of several lambdas on a line, the one that its bytecode came from."""
    found = _functions_in(code.co_filename).get((code.co_firstlineno, code.co_name), [])
    if len(found) < 2:
        return found[0] if found else None
    places = {place for place in code.co_positions() if None not in place and place[2] != place[3]}
    bodies = {id(node): node.body for node in found if isinstance(node, ast.Lambda)}
    exact = [
        node
        for node in found
        if (body := bodies.get(id(node))) is not None
        and (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places
    ]
    return exact[0] if len(exact) == 1 else None


def _read(
    function: FunctionType,
    *,
    given: tuple[int, dict[str, object]] = (0, {}),
    bound: bool = False,
    state_at: int | None = None,
    depth: int = 0,
) -> Sightings:
    """Read one function.

    Args:
        given: the arguments of a `partial`: the number of positional ones, and those by name.
        bound: True if its first parameter is `self`.
        state_at: the index of the state parameter; by default its name or its type shows it.
        depth: the number of calls between the first function and this one.
    """
    node = _node_of(function.__code__)
    if node is None:
        return NO_SIGHTINGS
    names = _names(function, given[1])
    parameters = [*node.args.posonlyargs, *node.args.args]
    parameters = parameters[given[0] + (bound and bool(parameters)) :]
    every = [*parameters, *node.args.kwonlyargs]
    hints = {one.arg: ast.unparse(one.annotation) for one in every if one.annotation is not None}
    contexts = [one.arg for one in every if one.arg in _CONTEXTS or "Context" in hints.get(one.arg, "")]
    known = True
    if state_at is not None:
        contexts = [one.arg for one in parameters[state_at : state_at + 1]]
    elif not contexts and parameters and "Async" not in hints.get(parameters[0].arg, ""):
        known = len(every) == 1 or parameters[0].arg in _STATES  # a single parameter may have any name
        contexts = [parameters[0].arg]

    def resolve(name: str) -> object:
        return names[name]

    def helper(called: FunctionType, index: int) -> Sightings:
        return NO_SIGHTINGS if depth > 3 else _read(called, state_at=index, depth=depth + 1)

    found = BodyReader(node, contexts, resolve, helper, Path(function.__code__.co_filename).name).read()
    whole = found.whole and known and not (node.args.vararg or node.args.kwarg)
    return found.replace(whole=whole, by_state=found.by_state and not bound and len(every) == 1)


def _names(function: FunctionType, given: Mapping[str, object]) -> Mapping[str, Any]:
    """The values of names from outside the function, and of parameters with a value, as `=name`."""
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    held = {name: cell.cell_contents for name, cell in closed if cell != CellType()}
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    fixed = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    fixed |= {**(function.__kwdefaults__ or {}), **given}
    named = {f"={name}": value for name, value in fixed.items()}
    return ChainMap(held, named, function.__globals__, dict(vars(builtins)))
