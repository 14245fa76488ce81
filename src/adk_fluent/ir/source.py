"""The state keys that functions use, found in their source; see `state_keys.Sightings`.

`BodyReader` follows every path of a function body: a forward data-flow analysis on the syntax tree. The fact
at each point is the set of definite keys (`There`): keys that every path to this point has written or tested.
A statement maps the set before it to the set after it; paths that meet intersect their sets (`_met`). So a
read of a key in the set is safe, and any other read may find it missing. A search for all `state["key"]`
would be simpler, but could not tell a read that every call needs from one under a test.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, ClassVar, Final, cast
from weakref import WeakKeyDictionary

from adk_fluent.ir.source_expressions import Expressions
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sighting, Sightings
from adk_fluent.ir.state_names import NOTHING, FunctionSource, There, is_dict_call

_Visitors = Mapping[type[ast.AST], Callable[..., Any]]


class BodyReader(Expressions):
    """Reader of the body of one function."""

    def read(self) -> Sightings:
        """Read the whole body, and return the uses of state that it shows."""
        node = self._node
        if isinstance(node, ast.Lambda):
            self._leave(node.body, NOTHING)
        elif (there := self._block(node.body, NOTHING, sure=True)) is not None:
            self._exits.append((there, frozenset()))
        kept = (_met([there for there, _ in self._exits]) or NOTHING) - self._removed
        given = [frozenset(("", key) for key in keys) for _, keys in self._exits]
        always = {key for _, key in _met(given) or NOTHING}
        return Sightings(
            tuple(self._reads),
            self._found(self._writes, {key for holder, key in kept if not holder}),
            self._found(self._returned, always),
            self._whole,
            self._gives,
            self._returns_known,
            self._by_state and self._whole,
        )

    def _found(self, places: dict[str, list[ast.expr]], always: Iterable[str]) -> tuple[Sighting, ...]:
        always = set(always)
        return tuple(
            dict.fromkeys(
                Sighting(key, self._place(place), always=key in always)
                for key, found in places.items()
                for place in found
            )
        )

    # --- statements -------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], there: There | None, *, sure: bool) -> There | None:
        """The definite keys after some statements; `None` if no path reaches their end."""
        for one in body:
            if there is None:
                return None
            visit = self._STATEMENTS.get(type(one), type(self)._parts)
            there = visit(self, one, there, sure)
        return there

    def _assign(self, node: ast.Assign | ast.AnnAssign, there: There, sure: bool) -> There:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None or (len(targets) == 1 and self._is_alias(targets[0])):
            return there
        there = self._expr(node.value, there, sure=sure)
        for target in targets:
            if isinstance(target, ast.Name) and target.id in self._dicts:
                there = frozenset(one for one in there if one[0] != target.id)
                there = self._made_dict(target.id, node.value, there)
            elif isinstance(target, ast.Subscript) and (holder := self._holder(target.value)) is not None:
                there = self._write(holder, target.slice, node.value, there)
            else:
                there = self._expr(target, there, sure=sure)
        return there

    def _made_dict(self, name: str, value: ast.expr, there: There) -> There:
        if isinstance(value, ast.Dict):
            known = self._literal(name, value, there)
            self._returns_known = self._returns_known and known is not None
            return there if known is None else known
        for keyword in value.keywords if isinstance(value, ast.Call) else ():
            key = ast.copy_location(ast.Constant(keyword.arg), keyword.value)
            there = self._write(name, key, keyword.value, there)
        return there

    def _grow(self, node: ast.AugAssign, there: There, sure: bool) -> There:
        there = self._expr(node.value, there, sure=sure)
        target = node.target
        if isinstance(target, ast.Subscript) and (holder := self._holder(target.value)) is not None:
            if not holder:
                self._read(target.slice, there, self._level(sure))
            return self._write(holder, target.slice, node.value, there)
        return self._expr(target, there, sure=sure)

    def _leave(self, value: ast.expr | None, there: There) -> None:
        """Record an exit of the function, which returns this value."""
        if isinstance(value, ast.IfExp):
            there = self._expr(value.test, there, sure=True)
            yes, no = self._supposing(value.test)
            left, self._left = self._left, True
            self._leave(value.body, there | yes)
            self._leave(value.orelse, there | no)
            self._left = left
            return
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            self._exits.append((there, frozenset()))
        elif isinstance(value, ast.Name) and value.id in self._dicts:
            self._exits.append((there, frozenset(key for holder, key in there if holder == value.id)))
        elif isinstance(value, ast.Dict) or is_dict_call(value):
            before = frozenset(one for one in there if one[0] != "=")
            inside = self._parts(value, before, True)
            made = self._made_dict("=", value, inside)
            self._exits.append((inside, frozenset(key for holder, key in made if holder == "=")))
        else:
            self._returns_known = False
            self._made(value)
            self._exits.append((self._expr(value, there, sure=True), frozenset()))

    def _return(self, node: ast.Return, there: There, sure: bool) -> None:
        if self._depth:
            if node.value is not None:
                self._expr(node.value, there, sure=False)
            return
        self._left = self._left or not sure
        self._leave(node.value, there)

    def _if(self, node: ast.If, there: There, sure: bool) -> There | None:
        there = self._expr(node.test, there, sure=sure)
        yes, no = self._supposing(node.test)
        return _met(
            [
                self._block(node.body, there | yes, sure=False),
                self._block(node.orelse, there | no, sure=False),
            ]
        )

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, there: There, sure: bool) -> There:
        there = self._expr(node.test if isinstance(node, ast.While) else node.iter, there, sure=sure)
        inside = there | (self._supposing(node.test)[0] if isinstance(node, ast.While) else NOTHING)
        self._block(node.body, inside, sure=False)
        self._block(node.orelse, there, sure=False)
        return there

    def _try(self, node: ast.Try | ast.TryStar, there: There, sure: bool) -> There | None:
        caught, self._caught = self._caught, self._caught or bool(node.handlers)
        body = self._block(node.body, there, sure=sure and not node.handlers)
        self._caught = caught
        ends = [self._block(node.orelse, body, sure=False) if body is not None else None]
        ends += [self._block(handler.body, there, sure=False) for handler in node.handlers]
        after = _met(ends)
        finally_ = self._block(node.finalbody, there if after is None else after, sure=sure)
        return None if after is None else finally_

    def _with(self, node: ast.With | ast.AsyncWith, there: There, sure: bool) -> There | None:
        for item in node.items:
            there = self._expr(item.context_expr, there, sure=sure)
        return self._block(node.body, there, sure=sure)

    def _match(self, node: ast.Match, there: There, sure: bool) -> There | None:
        there = self._expr(node.subject, there, sure=sure)
        ends = [self._block(case.body, there, sure=False) for case in node.cases]
        last = node.cases[-1]
        always = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        return _met([*ends, *([] if always else [there])])

    def _assert(self, node: ast.Assert, there: There, sure: bool) -> There:
        return self._expr(node.test, there, sure=sure) | self._supposing(node.test)[0]

    def _rebind(self, node: ast.Global | ast.Nonlocal, there: There, sure: bool) -> There:
        self._by_state = False
        return there

    def _stop(self, node: ast.Raise | ast.Break | ast.Continue, there: There, sure: bool) -> None:
        self._parts(node, there, sure)
        self._left = self._left or not isinstance(node, ast.Raise)

    _STATEMENTS: ClassVar[_Visitors] = {
        ast.Assign: _assign,
        ast.AnnAssign: _assign,
        ast.AugAssign: _grow,
        ast.Return: _return,
        ast.If: _if,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.While: _loop,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Match: _match,
        ast.Assert: _assert,
        ast.Global: _rebind,
        ast.Nonlocal: _rebind,
        ast.Raise: _stop,
        ast.Break: _stop,
        ast.Continue: _stop,
        ast.FunctionDef: Expressions.nested,
        ast.AsyncFunctionDef: Expressions.nested,
        ast.ClassDef: Expressions.nested,
    }


def _met(ends: Sequence[There | None]) -> There | None:
    """The definite keys where several paths meet: those of all paths that reach this point."""
    alive = [end for end in ends if end is not None]
    return alive[0].intersection(*alive[1:]) if alive else None


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
