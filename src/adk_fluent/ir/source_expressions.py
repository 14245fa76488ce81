"""The reader of a function's expressions: the state keys that they use, and the keys definite before them."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from re import Pattern
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, ClassVar, Final

from adk_fluent.ir.state_keys import Level, Sighting, StateFieldRef
from adk_fluent.ir.state_names import StateNames, There

_Nested = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
_PURE_MODULES: Final = frozenset({"re", "math", "json", "operator", "string"})
_IMPURE: Final = frozenset(
    ("input", "open", "next", "iter", "print", "id", "globals", "locals", "eval", "exec")
)
_HARMLESS: Final = frozenset(
    {
        *("agent_name", "app_name", "branch", "function_call_id", "invocation_id", "user_id"),
        *("actions.end_of_agent", "actions.escalate", "actions.skip_summarization"),
        *("actions.route", "actions.transfer_to_agent", "session.app_name", "session.id", "session.user_id"),
        *("attempt_count", "error", "is_aborted", "node_path", "route", "run_id"),
        *(
            "request_confirmation",
            "tool_confirmation",
            "tool_confirmation.confirmed",
            "tool_confirmation.payload",
        ),
    }
)
"""Attributes of a context that lead neither to the state nor to the conversation or artifacts."""


class Expressions(StateNames, ABC):
    """Reads the expressions in the body of one function."""

    def _start(self) -> None:
        self._reads: dict[Sighting, None] = {}
        self._writes: dict[str, list[ast.expr]] = {}
        self._returned: dict[str, list[ast.expr]] = {}
        self._exits: list[tuple[There, frozenset[str]]] = []
        self._removed: set[tuple[str, str]] = set()

    def _place(self, node: ast.expr) -> str:
        return f"{self._file}, line {node.lineno}"

    # --- what is noted ----------------------------------------------------------------------------

    def _read(self, key: ast.expr, there: There, level: Level) -> str | None:
        name = self._key(key)
        if name is None:
            self._whole = False
            self._expr(key, there, sure=False)
            return None
        if ("", name) in there or self._caught:
            level = "optional"
        self._reads[Sighting(name, self._place(key), level)] = None
        return name

    def _write(self, holder: str, key: ast.expr, value: ast.expr, there: There) -> There:
        name = self._key(key)
        if name is None:
            self._lose(holder)
            return there
        if not holder:
            self._writes.setdefault(name, []).append(key)
        else:
            self._returned.setdefault(name, []).append(key)
        if self._depth:
            return there
        return there - {(holder, name)} if _may_be_none(value) else there | {(holder, name)}

    def _lose(self, holder: str) -> None:
        """Record that a write has a key which the source does not show."""
        self._whole = self._whole and bool(holder)
        self._returns_known = self._returns_known and not holder

    def _level(self, sure: bool) -> Level:
        return "required" if sure and not self._left and not self._depth else "lenient"

    # --- expressions ------------------------------------------------------------------------------

    def _expr(self, node: ast.AST, there: There, *, sure: bool) -> There:
        """The definite keys after an expression; `sure` if every call that reaches it evaluates it."""
        if isinstance(node, ast.expr) and self._is_state(node):
            self._whole = False
            return there
        visit = self._EXPRESSIONS.get(type(node), type(self)._parts)
        return visit(self, node, there, sure)

    def _parts(self, node: ast.AST, there: There, sure: bool) -> There:
        for child in ast.iter_child_nodes(node):
            there = self._expr(child, there, sure=sure)
        return there

    def _name(self, node: ast.Name, there: There, sure: bool) -> There:
        if node.id in self._dicts and isinstance(node.ctx, ast.Load):
            self._returns_known = False  # the code that receives the dict may add keys
        elif node.id not in self._local and not self._is_constant(node.id):
            self._by_state = False
        return there

    def _is_constant(self, name: str) -> bool:
        try:
            value = self._resolve(name)
        except LookupError:
            return False
        if isinstance(value, ModuleType):
            return value.__name__ in _PURE_MODULES
        if isinstance(value, BuiltinFunctionType):
            return value.__module__ == "builtins" and value.__name__ not in _IMPURE
        if isinstance(value, type):
            return value.__module__ == "builtins" or issubclass(value, Enum)
        plain = (str, bytes, int, float, bool, tuple, frozenset, Enum, Pattern, StateFieldRef)
        return value is None or isinstance(value, plain)

    def _attribute(self, node: ast.Attribute, there: There, sure: bool) -> There:
        if not self._of_context(node):
            return self._parts(node, there, sure)
        path = ast.unparse(node).partition(".")[2]
        self._whole = self._whole and any(path == one or path.endswith(f".{one}") for one in _HARMLESS)
        return there

    def _either(self, node: ast.BoolOp, there: There, sure: bool) -> There:
        there = inner = self._expr(node.values[0], there, sure=sure)
        for before, value in pairwise(node.values):
            inner |= self._supposing(before)[isinstance(node.op, ast.Or)]
            inner = self._expr(value, inner, sure=False)
        return there

    def _choice(self, node: ast.IfExp, there: There, sure: bool) -> There:
        there = self._expr(node.test, there, sure=sure)
        yes, no = self._supposing(node.test)
        return self._expr(node.body, there | yes, sure=False) & self._expr(
            node.orelse, there | no, sure=False
        )

    def _compare(self, node: ast.Compare, there: There, sure: bool) -> There:
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            holder = self._holder(node.comparators[0])
            if holder is not None:
                if not holder:
                    self._read(node.left, there, "optional")
                return there
        return self._parts(node, there, sure)

    def _subscript(self, node: ast.Subscript, there: There, sure: bool) -> There:
        holder = self._holder(node.value)
        if holder is None:
            return self._parts(node, there, sure)
        if isinstance(node.ctx, ast.Load):
            if holder:
                return self._expr(node.slice, there, sure=sure)
            name = self._read(node.slice, there, self._level(sure))
            return there if name is None else there | {("", name)}
        if isinstance(node.ctx, ast.Del) and (key := self._key(node.slice)) is not None:
            self._removed.add((holder, key))
            return there - {(holder, key)}
        return self._write(holder, node.slice, node, there)

    def _call(self, node: ast.Call, there: There, sure: bool) -> There:
        for keyword in node.keywords:
            event = keyword.arg == "state" and ast.unparse(node.func).endswith("Event")
            if keyword.arg == "state_delta" or event:
                literal = isinstance(keyword.value, ast.Dict) and self._literal("", keyword.value, there)
                self._whole, self._gives = bool(literal) and self._whole, bool(literal) and self._gives
        method = node.func
        holder = self._holder(method.value) if isinstance(method, ast.Attribute) else None
        if isinstance(method, ast.Attribute) and holder is not None and method.attr in _METHODS:
            return self._method(node, method.attr, holder, there, sure)
        given = [index for index, one in enumerate(node.args) if self._is_state(one)]
        function = self._value(method) if isinstance(method, ast.Name) else None
        if len(given) == 1 and isinstance(function, FunctionType):
            return self._ask(node, function, given[0], there, sure)
        return self._parts(node, there, sure)

    def _method(self, node: ast.Call, name: str, holder: str, there: There, sure: bool) -> There:
        for given in (*node.args[1:], *(keyword.value for keyword in node.keywords)):
            there = self._expr(given, there, sure=sure)
        if name == "update":
            for one in node.args:
                known = isinstance(one, ast.Dict) and self._literal(holder, one, there)
                there = known or there
                if not known and not (isinstance(one, ast.Dict) and not one.keys):
                    self._whole, self._returns_known = (
                        self._whole and bool(holder),
                        self._returns_known and not holder,
                    )
            for keyword in node.keywords:
                key = ast.copy_location(ast.Constant(keyword.arg), keyword.value)
                there = self._write(holder, key, keyword.value, there)
            return there
        if not node.args:
            self._whole = self._whole and bool(holder)
            return there
        key = self._key(node.args[0])
        if not holder:
            self._read(node.args[0], there, "optional")
        if name == "setdefault" and len(node.args) > 1:
            return self._write(holder, node.args[0], node.args[1], there)
        if name == "pop" and key is not None:
            self._removed.add((holder, key))
            return there - {(holder, key)}
        return there

    def _ask(self, node: ast.Call, function: FunctionType, index: int, there: There, sure: bool) -> There:
        """A function of the user's that is given the state."""
        for number, one in enumerate(node.args):
            there = there if number == index else self._expr(one, there, sure=sure)
        for keyword in node.keywords:
            there = self._expr(keyword.value, there, sure=sure)
        seen = self._helper(function, index)
        self._whole, self._by_state = self._whole and seen.whole, self._by_state and seen.by_state
        for one in seen.reads:
            expected = ("", one.key) in there or self._caught
            level: Level = (
                "optional" if expected else one.level if self._level(sure) == "required" else one.softened
            )
            self._reads[Sighting(one.key, one.where, level)] = None
        for one in seen.writes:
            self._writes.setdefault(one.key, []).append(node)
            if one.always and not self._depth:
                there |= {("", one.key)}
        return there

    def nested(self, node: _Nested | _Comprehension, there: There, sure: bool) -> There:
        """Read a function, a class or a comprehension inside the function."""
        if isinstance(node, _Comprehension):
            there = self._expr(node.generators[0].iter, there, sure=sure)
            names = [n.id for one in node.generators for n in ast.walk(one.target) if isinstance(n, ast.Name)]
        else:
            given = node.args if not isinstance(node, ast.ClassDef) else None
            names = [one.arg for one in ast.walk(given) if isinstance(one, ast.arg)] if given else []
            self._local.add(getattr(node, "name", ""))
        with self._apart(names):
            if isinstance(node, _Comprehension):
                self._comprehended(node, there)
            elif isinstance(node, ast.Lambda):
                self._expr(node.body, there, sure=False)
            else:
                left = self._left
                self._block(node.body, there, sure=False)
                self._left = left
        return there

    def _comprehended(self, node: _Comprehension, there: There) -> None:
        for index, one in enumerate(node.generators):
            if index:
                there = self._expr(one.iter, there, sure=False)
            for test in one.ifs:
                there = self._expr(test, there, sure=False) | self._supposing(test)[0]
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._expr(part, there, sure=False)

    def _waits(self, node: ast.Await | ast.Yield | ast.YieldFrom, there: There, sure: bool) -> There:
        self._by_state = False
        if not isinstance(node, ast.Await) and not self._depth:
            self._returns_known = False
            self._made(node.value)
        return self._parts(node, there, sure)

    def _named(self, node: ast.NamedExpr, there: There, sure: bool) -> There:
        return there if self._is_alias(node.target) else self._expr(node.value, there, sure=sure)

    def _is_alias(self, target: ast.expr) -> bool:
        return isinstance(target, ast.Name) and target.id in (self._states | self._contexts)

    def _literal(self, holder: str, node: ast.Dict, there: There) -> There | None:
        """Record the keys of a dict literal; `None` if it may have other keys."""
        known = True
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None or self._key(key) is None:
                known = False
            else:
                there = self._write(holder, key, value, there)
        return there if known else None

    def _made(self, value: ast.expr | None) -> None:
        """Record a result that a user's function makes, because it may be an event that changes state."""
        if isinstance(value, ast.Call):
            called = value.func
            while isinstance(called, ast.Attribute):
                called = called.value
            made = self._value(called) if isinstance(called, ast.Name) else None
            ours = made is not None and not str(getattr(made, "__module__", "")).startswith("google.")
            self._gives = self._gives and not ours

    @abstractmethod
    def _block(self, body: Sequence[ast.stmt], there: There | None, *, sure: bool) -> There | None:
        """The definite keys after some statements; `None` if no path reaches their end."""

    _EXPRESSIONS: ClassVar[Mapping[type[ast.AST], Callable[..., Any]]] = {
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: _call,
        ast.Compare: _compare,
        ast.BoolOp: _either,
        ast.IfExp: _choice,
        ast.NamedExpr: _named,
        ast.Await: _waits,
        ast.Yield: _waits,
        ast.YieldFrom: _waits,
        ast.ListComp: nested,
        ast.SetComp: nested,
        ast.GeneratorExp: nested,
        ast.DictComp: nested,
        ast.Lambda: nested,
    }


_METHODS: Final = frozenset({"get", "setdefault", "pop", "update"})


def _may_be_none(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.IfExp):
        return _may_be_none(node.body) or _may_be_none(node.orelse)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "get" and len(node.args) == 1
