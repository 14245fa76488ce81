"""The readers of a function's calls and dicts.

`Callees` reads the calls that hand the state on: the called function, and the values of its parameters.
`Dicts` reads the keys that each dict and the state receive.
"""

from __future__ import annotations

import ast
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, cast

from adk_fluent.ir.state_keys import Level, Sighting
from adk_fluent.ir.state_names import NOTHING, FunctionCall, StateNames, There, makes_dict

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


MADE = "="
"""The holder of the keys in a dict that a function returns without a name."""


class DictKey(NamedTuple):
    """A key that a dict has.

    Attributes:
        key: the key.
        place: the expression that shows it.
        none: True if its value may be `None`.
        sure: True if the dict has it each time.
    """

    key: str
    place: ast.expr
    none: bool = False
    sure: bool = True


class Dicts(Callees, ABC):
    """Reads the keys that a function reads, writes and removes, in the state and in its own dicts."""

    def _start(self) -> None:
        self._reads: dict[Sighting, None] = {}
        self._made: dict[str, dict[str, list[ast.expr]]] = {"": {}}
        self._open: set[str] = set()
        self._returned: set[str] = set()
        self._removed: list[tuple[str, str]] = []
        self._removals: dict[str, list[ast.expr]] = {}
        self._removed_within: set[tuple[str, str]] = set()
        self._left = self._skipped = self._caught = False

    def _place(self, node: ast.expr) -> str:
        return f"{self._around.file}, line {node.lineno}"

    def _level(self, sure: bool) -> Level:
        return "required" if sure and not (self._left or self._skipped or self._depth) else "lenient"

    @abstractmethod
    def _expr(self, node: ast.AST, there: There, *, sure: bool) -> There:
        """The definite keys after an expression; `sure` if every call that reaches it evaluates it."""

    # --- what is noted ----------------------------------------------------------------------------

    def _read(self, key: ast.expr, there: There, level: Level) -> str | None:
        name = self._key(key)
        if name is None:
            self._whole = False
            self._expr(key, there, sure=False)
            return None
        self._note(name, self._place(key), there, level)
        return name

    def _note(self, key: str, where: str, there: There, level: Level) -> None:
        expected = ("", key) in there or self._caught
        self._reads[Sighting(key, where, "optional" if expected else level)] = None

    def _write(self, holder: str, key: ast.expr, value: ast.expr, there: There) -> There:
        name = self._key(key)
        return self._put(holder, None if name is None else [DictKey(name, key, may_be_none(value))], there)

    def _put(self, holder: str, entries: list[DictKey] | None, there: There) -> There:
        """The definite keys after the state or a dict has received these; `None` for unknown keys."""
        if entries is None:
            self._whole = self._whole and bool(holder)
            self._open.add(holder)
        if holder.startswith("@"):  # the receiver of the event may apply it
            self._gives = self._gives and entries is not None
            self._put("", [one._replace(sure=False) for one in entries or ()], there)
        for one in entries or ():
            self._made.setdefault(holder, {}).setdefault(one.key, []).append(one.place)
            if one.sure:
                there = (there - {(holder, one.key), ("-", one.key)}) | {(f"?{holder}", one.key)}
                there |= {(holder, one.key)} if not one.none or not holder else NOTHING
        return there

    def _remove(self, holder: str, key: str, place: ast.expr, there: There) -> There:
        if not holder:
            self._removals.setdefault(key, []).append(place)
        if self._depth:
            self._removed_within.add((holder, key))
            return there
        self._removed += [(holder, key), (f"?{holder}", key)]
        gone = there - {(holder, key), (f"?{holder}", key)}
        return gone if holder else gone | {("-", key)}

    def _since(self, mark: int, there: There) -> There:
        """The definite keys without those that the function has removed since this number of removals."""
        return there.difference(self._removed[mark:])

    # --- the contents of a dict -------------------------------------------------------------------

    def _contents(self, node: ast.expr, there: There, sure: bool) -> tuple[There, list[DictKey] | None]:
        """Read an expression for a dict: the definite keys after it, and its keys, `None` if unknown."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
            node = node.func.value if self._holder(node.func.value) else node
        if isinstance(node, ast.Name) and node.id in self._dicts:
            return there, None if node.id in self._open else list(self._held(node.id, there))
        if isinstance(node, ast.IfExp):
            there = self._expr(node.test, there, sure=sure)
            left, right = (self._contents(one, there, False)[1] for one in (node.body, node.orelse))
            unsure = [one._replace(sure=False) for one in (*(left or ()), *(right or ()))]
            return there, None if left is None or right is None else unsure
        if isinstance(node, ast.BinOp) and makes_dict(node):
            there, left = self._contents(node.left, there, sure)
            there, right = self._contents(node.right, there, sure)
            return there, None if left is None or right is None else left + right
        if isinstance(node, ast.Dict):
            return self._literal(node, there, sure)
        if isinstance(node, ast.Call) and makes_dict(node):
            return self._dict_call(node, there, sure)
        if isinstance(node, ast.DictComp) and len(node.generators) == 1 and not node.generators[0].ifs:
            return self._comprehended_dict(node, there, sure)
        there = self._expr(node, there, sure=sure)
        items = self._items(node) or ()
        keys = [(self._key(key), may_be_none(value)) for key, value in items]
        known = [DictKey(key, node, none) for key, none in keys if key is not None]
        return there, known if known and len(known) == len(items) else None

    def _held(self, name: str, there: There) -> Iterator[DictKey]:
        for key, places in self._made.get(name, {}).items():
            yield DictKey(key, places[0], (name, key) not in there, (f"?{name}", key) in there)

    def _literal(self, node: ast.Dict, there: There, sure: bool) -> tuple[There, list[DictKey] | None]:
        found: list[DictKey] = []
        known = True
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                there, more = self._contents(value, there, sure)
                known, found = known and more is not None, found + (more or [])
                continue
            there = self._expr(value, self._expr(key, there, sure=sure), sure=sure)
            name = self._key(key)
            known = known and name is not None
            found += [] if name is None else [DictKey(name, key, may_be_none(value))]
        return there, found if known else None

    def _dict_call(self, node: ast.Call, there: There, sure: bool) -> tuple[There, list[DictKey] | None]:
        if isinstance(node.func, ast.Attribute):  # `dict.fromkeys(keys, value)`
            there = self._expr(node, there, sure=sure)
            keys = [self._key(one) for one in self._elements(node.args[0]) or ()] if node.args else []
            none = len(node.args) < 2 or may_be_none(node.args[1])
            known = [DictKey(key, node, none) for key in keys if key is not None]
            return there, known if known and len(known) == len(keys) else None
        found: list[DictKey] | None = []
        for value in [*node.args, *(one.value for one in node.keywords if one.arg is None)]:
            there, more = self._contents(value, there, sure)
            found = None if found is None or more is None else found + more
        for one in node.keywords:
            if one.arg is not None:
                there = self._expr(one.value, there, sure=sure)
                place = ast.copy_location(ast.Constant(one.arg), one.value)
                found = None if found is None else [*found, DictKey(one.arg, place, may_be_none(one.value))]
        return there, found

    def _comprehended_dict(
        self, node: ast.DictComp, there: There, sure: bool
    ) -> tuple[There, list[DictKey] | None]:
        (one,) = node.generators
        rounds = None if one.is_async else self._rounds(one.target, one.iter)
        if rounds is None:
            return self._expr(node, there, sure=sure), None
        there = self._expr(one.iter, there, sure=sure)
        found: list[DictKey] = []
        for names in rounds:
            with self._meaning_of(names):
                there = self._expr(node.value, self._expr(node.key, there, sure=sure), sure=sure)
                key = self._key(node.key)
            found += [] if key is None else [DictKey(key, node.key, may_be_none(node.value))]
        return there, found if len(found) == len(rounds) else None

    def _rounds(self, target: ast.expr, items: ast.expr) -> list[dict[str, ast.expr | None]] | None:
        """The values of the loop variables in each round of a loop over a constant; `None` if unknown."""
        elements = self._elements(items)
        found = [_unpacked(target, one) for one in elements or ()]
        known = [one for one in found if one is not None]
        return known if elements is not None and len(known) == len(found) else None


def _unpacked(target: ast.expr, value: ast.expr) -> dict[str, ast.expr | None] | None:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(value, ast.Constant) and isinstance(value.value, tuple):
        parts = cast("tuple[Any, ...]", value.value)
        value = ast.Tuple([ast.copy_location(ast.Constant(one), value) for one in parts], ast.Load())
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    if len(target.elts) != len(value.elts):
        return None
    pairs = [_unpacked(*pair) for pair in zip(target.elts, value.elts, strict=True)]
    known = [one for one in pairs if one is not None]
    return {name: one for pair in known for name, one in pair.items()} if len(known) == len(pairs) else None


def may_be_none(node: ast.expr) -> bool:
    """True if the source shows that a value may be `None`."""
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.IfExp):
        return may_be_none(node.body) or may_be_none(node.orelse)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "get" and len(node.args) == 1
