"""Reads the source of functions for the state keys they touch; see `sighting`."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from adk_fluent.ir.keys import Level
from adk_fluent.ir.sighting import NO_SIGHTINGS, Sighting, Sightings

_known: WeakKeyDictionary[Callable[..., object], Sightings] = WeakKeyDictionary()
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_CONTEXTS: Final = frozenset(
    {"tool_context", "callback_context", "readonly_context", "invocation_context", "context", "ctx"}
)


def sightings(value: object) -> Sightings:
    """What the source of a function, a callable object, a tool of ADK's or a class of agents shows.

    >>> def note(topic: str, tool_context) -> None:
    ...     tool_context.state["topic"] = topic
    >>> sightings(note).whole, sightings(note).writes[0].key
    (True, 'topic')
    """
    if isinstance(value, type):
        return _of_class(value)
    function = _function(value)
    if function is None:
        return NO_SIGHTINGS
    if function not in _known:
        _known[function] = _read(function)
    found = _known[function]
    return found.replace(whole=False) if hasattr(value, "__wrapped__") else found  # what wraps it may do more


def _of_class(cls: type) -> Sightings:
    own = [
        base
        for base in cls.__mro__
        if not base.__module__.startswith(("google.", "pydantic", "builtins", "abc"))
    ]
    methods = [method for base in own for method in vars(base).values() if isinstance(method, FunctionType)]
    found = [sightings(method) for method in methods]
    return Sightings(
        tuple(read for one in found for read in one.reads),
        tuple(write for one in found for write in one.writes),
    )


def _function(value: object) -> FunctionType | None:
    """The function that runs when a callable, or a tool, is called."""
    while isinstance(value, functools.partial):
        value = cast("functools.partial[object]", value).func
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
def _functions_in(file: str) -> Mapping[tuple[int, str], _Function | None]:
    """The functions of a file, by the line on which they begin, decorators included, and their names.

    Of several lambdas that begin on one line, nobody can tell which is which.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[tuple[int, str], _Function | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            above = [] if isinstance(node, ast.Lambda) else [one.lineno for one in node.decorator_list]
            key = min([node.lineno, *above]), getattr(node, "name", "<lambda>")
            found[key] = None if key in found else node
    return found


def _read(function: FunctionType) -> Sightings:
    code = function.__code__
    node = _functions_in(code.co_filename).get((code.co_firstlineno, code.co_name))
    if node is None:
        return NO_SIGHTINGS
    reader = _Reader(node, function.__globals__, Path(code.co_filename).name)
    return reader.read()


class _Reader:
    """Reads one function.

    Attributes:
        contexts: the names that stand for ADK's context, or for something of it such as its session.
        states: the names that stand for the state.
    """

    def __init__(self, node: _Function, names: Mapping[str, Any], file: str) -> None:
        self._node, self._globals, self._file = node, names, file
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.contexts = {
            one.arg
            for one in parameters
            if one.arg in _CONTEXTS
            or (one.annotation is not None and "Context" in ast.unparse(one.annotation))
        }
        if not self.contexts and len(parameters) == 1:  # a provider may call it what it likes
            self.contexts = {parameters[0].arg}
        self.states: set[str] = set()
        self._reads: list[Sighting] = []
        self._writes: list[Sighting] = []
        self._used: set[int] = set()
        self._gives = True
        self._whole = bool(self.contexts) and not (node.args.vararg or node.args.kwarg)

    def read(self) -> Sightings:
        """Everything that the function shows."""
        for node in ast.walk(self._node):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                self._alias(node)
        for node in ast.walk(self._node):
            self._visit(node)
        for node in ast.walk(self._node):
            self._account(node)
        reads, writes = tuple(dict.fromkeys(self._reads)), tuple(dict.fromkeys(self._writes))
        return Sightings(reads, writes, self._whole, self._gives)

    def _alias(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or node.value is None:
            return
        if self._is_state(node.value):
            self.states.add(targets[0].id)
            self._used.add(id(node.value))
        elif isinstance(node.value, ast.Attribute) and self._of_context(node.value):
            self.contexts.add(targets[0].id)

    def _of_context(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.contexts

    def _is_state(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.states
        state = isinstance(node, ast.Attribute) and node.attr in ("state", "state_delta")
        return state and self._of_context(node)

    def _key(self, node: ast.expr) -> str | None:
        value: object = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Name):
            value = self._globals.get(node.id)
        return value if isinstance(value, str) else None

    def _note(self, into: list[Sighting], key: ast.expr, level: Level = "optional") -> bool:
        if (name := self._key(key)) is None:
            self._whole = False
            return False
        into.append(Sighting(name, f"{self._file}, line {key.lineno}", level))
        return True

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Subscript) and self._is_state(node.value):
            self._used.add(id(node.value))
            if isinstance(node.ctx, ast.Load):
                self._note(self._reads, node.slice, "lenient")
            elif isinstance(node.ctx, ast.Store):
                self._note(self._writes, node.slice)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            if self._is_state(node.target.value):
                self._note(self._reads, node.target.slice, "lenient")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and self._is_state(node.comparators[0]):
            if isinstance(node.ops[0], ast.In | ast.NotIn):
                self._used.add(id(node.comparators[0]))
                self._note(self._reads, node.left)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Return | ast.Yield) and isinstance(node.value, ast.Call):
            self._gives = self._gives and not self._made_elsewhere(node.value.func)

    def _call(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            event = keyword.arg == "state" and ast.unparse(node.func).endswith("Event")
            if keyword.arg == "state_delta" or event:
                literal = self._literal(keyword.value)
                self._whole, self._gives = literal and self._whole, literal and self._gives
        method = node.func
        if not isinstance(method, ast.Attribute) or not self._is_state(method.value):
            return
        if method.attr in ("get", "setdefault", "pop") and node.args:
            self._used.add(id(method.value))
            self._note(self._reads, node.args[0])
            if method.attr == "setdefault":
                self._note(self._writes, node.args[0])
        elif method.attr == "update":
            self._used.add(id(method.value))
            known = [self._literal(one) for one in node.args]
            for keyword in node.keywords:
                if keyword.arg:
                    self._writes.append(Sighting(keyword.arg, f"{self._file}, line {keyword.value.lineno}"))
            self._whole = self._whole and all(known) and all(keyword.arg for keyword in node.keywords)

    def _made_elsewhere(self, called: ast.expr) -> bool:
        """Whether a function of the user's makes a result, which may be an event."""
        while isinstance(called, ast.Attribute):
            called = called.value
        made = self._globals.get(called.id) if isinstance(called, ast.Name) else None
        return made is not None and not str(getattr(made, "__module__", "")).startswith("google.")

    def _literal(self, node: ast.expr) -> bool:
        """Note the keys of a dict that is written down; whether these are all."""
        if not isinstance(node, ast.Dict):
            return False
        noted = [key is not None and self._note(self._writes, key) for key in node.keys]
        return all(noted)

    def _account(self, node: ast.AST) -> None:
        """The context, or the state, must go nowhere else."""
        for parent, child in _children(node):
            if isinstance(child, ast.expr) and id(child) not in self._used and self._escapes(parent, child):
                self._whole = False

    def _escapes(self, parent: ast.AST, child: ast.expr) -> bool:
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id in self.contexts:
            return not isinstance(parent, ast.Attribute)
        loaded = isinstance(getattr(child, "ctx", None), ast.Load)
        return loaded and isinstance(child, ast.Name | ast.Attribute) and self._is_state(child)


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    return ((node, child) for child in ast.iter_child_nodes(node))
