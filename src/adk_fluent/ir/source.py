"""The state keys that functions use, found in their source; see `state_keys.Sightings`.

This module finds the source of a function, the parameters that are the state, and the values that the
function holds. `source_statements` reads the body.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
from collections import ChainMap
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from adk_fluent.ir.source_statements import BodyReader
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sightings
from adk_fluent.ir.state_names import FunctionCall, FunctionSource, OuterScope

_known: WeakKeyDictionary[Callable[..., object], Sightings] = WeakKeyDictionary()
_CONTEXTS: Final = frozenset(
    {"tool_context", "callback_context", "readonly_context", "invocation_context", "context", "ctx"}
)
_BODIES: Final = ("_run_async_impl", "_run_impl")
"""The methods of agents and nodes that ADK calls in each run."""
_STATES: Final = frozenset({"state", "s", "st", "_state", "view", "values"})
"""The usual names of the state parameter in functions that also have other parameters."""


def sightings(value: object) -> Sightings:
    """The uses of state in the source of a function, a callable object, a tool of ADK's or a class of agents.

    >>> def note(topic: str, tool_context) -> None:
    ...     tool_context.state["topic"] = topic
    >>> sightings(note).whole, sightings(note).writes[0].key
    (True, 'topic')
    """
    if isinstance(value, type) or hasattr(type(value), "_run_async_impl"):
        return _of_agents(value)
    inner, given = _unpacked(value)
    function = inner if isinstance(inner, FunctionType) else getattr(inner, "__func__", None)
    if isinstance(function, FunctionType):
        found = _remembered(function, getattr(inner, "__self__", None), given)
        if found.whole or not hasattr(value, "__wrapped__"):
            return found
    wrapped = hasattr(value, "__wrapped__")
    if (function := _function(inspect.unwrap(inner) if callable(inner) else inner)) is None:
        return NO_SIGHTINGS
    owner = None if isinstance(inner, FunctionType) or wrapped else inner
    found = _remembered(function, owner, given)
    return found.replace(whole=False) if wrapped else found  # what wraps it may do more


_Given = tuple[tuple[object, ...], Mapping[str, object]]
"""The arguments of a `functools.partial`: those by position and those by name."""
_NOTHING_GIVEN: Final[_Given] = ((), {})


def _remembered(function: FunctionType, owner: object, given: _Given) -> Sightings:
    """The uses of state in a function; read once, unless it is a method or has arguments of a `partial`."""
    first = () if owner is None else (owner,)
    if first or given != _NOTHING_GIVEN:
        return _read(function, given=((*first, *given[0]), given[1]))
    if function not in _known:
        _known[function] = _read(function)
    return _known[function]


def _of_agents(value: object) -> Sightings:
    """The uses of state in the methods of an agent, or of a class of agents."""
    cls = value if isinstance(value, type) else type(value)
    own = [
        base
        for base in cls.__mro__
        if not base.__module__.startswith(("google.", "pydantic", "builtins", "abc"))
    ]
    methods = [method for base in own for method in vars(base).values() if isinstance(method, FunctionType)]
    agent = object() if isinstance(value, type) else value  # of a class, no attribute is known
    found = {method: _read(method, given=((agent,), {})) for method in methods}
    body = [getattr(cls, name, None) for name in _BODIES]
    return Sightings(
        tuple(read.replace(level=read.softened) for one in found.values() for read in one.reads),
        tuple(
            write.replace(always=write.always and method in body)
            for method, one in found.items()
            for write in one.writes
        ),
    )


def _unpacked(value: object) -> tuple[object, _Given]:
    """The innermost callable of `functools.partial` objects, and the arguments that they give."""
    if not isinstance(value, functools.partial):
        return value, _NOTHING_GIVEN
    partial = cast("functools.partial[object]", value)
    inner, (args, named) = _unpacked(partial.func)
    return inner, ((*args, *partial.args), {**named, **partial.keywords})


def _function(value: object) -> FunctionType | None:
    """The Python function behind a callable or a tool."""
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


def _source_of(function: FunctionType) -> FunctionSource | None:
    return _node_of(function.__code__)


def _read(function: FunctionType, *, given: _Given = _NOTHING_GIVEN) -> Sightings:
    """Read a function that a framework calls.

    Args:
        given: the arguments that it has already: `self`, and those of a `partial`.
    """
    code = function.__code__
    fixed = {**dict(zip(code.co_varnames[: code.co_argcount], given[0], strict=False)), **given[1]}
    return _read_call(FunctionCall(function, None, fixed), 0)


def _read_call(call: FunctionCall, depth: int) -> Sightings:
    """Read the function of a call; `depth` is the number of calls between the first function and this one."""
    function = cast(FunctionType, call.function)
    node = None if depth > _DEEPEST else _node_of(function.__code__)
    if node is None:
        return NO_SIGHTINGS
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    every = [one for one in every if one.arg not in call.fixed]
    hints = {one.arg: ast.unparse(one.annotation) for one in every if one.annotation is not None}
    contexts = [one.arg for one in every if one.arg in _CONTEXTS or "Context" in hints.get(one.arg, "")]
    known = True
    if call.states is not None:
        contexts = [*call.states]
    elif not contexts and every and "Async" not in hints.get(every[0].arg, ""):
        known = len(every) == 1 or every[0].arg in _STATES  # a single parameter may have any name
        contexts = [every[0].arg]
    is_tool = any(one == "tool_context" or "ToolContext" in hints.get(one, "") for one in contexts)
    from_model = [one.arg for one in every] if is_tool and call.states is None else []
    unknown = call.unknown.union(from_model)
    names = _names(function, call.fixed, unknown)

    def resolve(name: str) -> object:
        return names[name]

    def uses(called: FunctionCall) -> Sightings:
        return _read_call(called, depth + 1)

    around = OuterScope(resolve, uses, _source_of, Path(function.__code__.co_filename).name)
    found = BodyReader(node, contexts, around).read()
    alone = len(every) == 1 and len(node.args.posonlyargs) + len(node.args.args) == 1
    return found.replace(whole=found.whole and known, by_state=found.by_state and alone)


_DEEPEST: Final = 4
"""The number of calls of helper functions that are followed."""


def _names(function: FunctionType, fixed: Mapping[str, object], unknown: Set[str]) -> Mapping[str, Any]:
    """The values of names from outside the function, and of parameters with a value, as `=name`."""
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    held = {name: cell.cell_contents for name, cell in closed if cell != CellType()}
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    usual = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    usual |= function.__kwdefaults__ or {}
    usual = {name: value for name, value in usual.items() if name not in unknown}
    named = {f"={name}": value for name, value in {**usual, **fixed}.items()}
    return ChainMap(held, named, function.__globals__, dict(vars(builtins)))
