"""The reader of a function's expressions: the state keys that they use, and the keys definite before them."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import pairwise
from re import Pattern
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, ClassVar, Final, cast

from adk_fluent.ir.source_dicts import DictKey, Dicts, event_of
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.ir.state_names import FunctionCall, There, without_keys
from adk_fluent.ir.template import placeholders

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


class Expressions(Dicts, ABC):
    """Reads the expressions in the body of one function."""

    def _start(self) -> None:
        super()._start()
        self._inner: dict[str, There] = {}
        self._awaited: list[ast.expr] = []

    def _expr(self, node: ast.AST, there: There, *, sure: bool) -> There:
        if isinstance(node, ast.expr) and self._is_state(node) and not isinstance(node, ast.NamedExpr):
            self._whole = False
            return there
        visit = self._EXPRESSIONS.get(type(node), type(self)._parts)
        return visit(self, node, there, sure)

    def _parts(self, node: ast.AST, there: There, sure: bool) -> There:
        for child in ast.iter_child_nodes(node):
            there = self._expr(child, there, sure=sure)
        return there

    def _name(self, node: ast.Name, there: There, sure: bool) -> There:
        if node.id in self._rest:
            self._whole = False  # the context may be one of these arguments
        elif node.id in self._dicts and isinstance(node.ctx, ast.Load):
            self._open.add(node.id)  # the code that receives the dict may add keys
        elif node.id not in self._local and not self._is_constant(node.id):
            self._by_state = False
        return there

    def _is_constant(self, name: str) -> bool:
        try:
            value = self._around.resolve(name)
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
            holder = self._holder(without_keys(node.comparators[0]))
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
        if not isinstance(node.ctx, ast.Del):
            return self._write(holder, node.slice, node, there)
        key = self._key(node.slice) if holder else self._read(node.slice, there, self._level(sure))
        return there if key is None else self._remove(holder, key, node.slice, there)

    def _call(self, node: ast.Call, there: There, sure: bool) -> There:
        method = node.func
        holder = self._holder(method.value) if isinstance(method, ast.Attribute) else None
        if isinstance(method, ast.Attribute) and holder is not None:
            if method.attr in _METHODS or (holder and method.attr in _LOOKS):
                return self._method(node, method.attr, holder, there, sure)
            if method.attr == "has_delta":
                return there
        if (called := self._call_of(node)) is not None:
            return self._ask(node, called, there, sure)
        if self._is_injection(node) and len(node.args) == 2:
            return self._injected(node.args[0], there, sure)
        if isinstance(method, ast.Name) and method.id in self._inner:
            there |= self._inner[method.id]
        return self._arguments(node, there, sure)

    def _arguments(self, node: ast.Call, there: There, sure: bool) -> There:
        """Read a call of which only the arguments are known."""
        there = self._expr(node.func, there, sure=sure)
        whole = self._collects(node.func)
        for one in node.args:
            if isinstance(one, ast.GeneratorExp) and whole:
                there = self.nested(one, there, sure, all_rounds=True)
            elif not (isinstance(one, ast.Name) and one.id in self._dicts and self._only_looks(node.func)):
                there = self._expr(one, there, sure=sure)
        for keyword in node.keywords:
            event = keyword.arg == "state" and ast.unparse(node.func).endswith("Event")
            if keyword.arg != "state_delta" and not event:
                there = self._expr(keyword.value, there, sure=sure)
                continue
            there, found = self._contents(keyword.value, there, sure)
            there = self._put(event_of(node), found, there)
        return there

    def _emit(self, value: ast.expr | None, there: There) -> There:
        """The definite keys after the function has returned or yielded a value: those of an event."""
        if value is None or self._depth:
            return there
        value = self._assigned.get(value.id, value) if isinstance(value, ast.Name) else value
        if not isinstance(value, ast.Call):
            return there
        for one in value.keywords:
            there = self._emit(one.value, there) if one.arg == "actions" else there
        return self._put("", list(self._held(event_of(value), there)), there)

    def _collects(self, function: ast.expr) -> bool:
        """True for a function that reads all elements of its argument, such as `sum` and `", ".join`."""
        if isinstance(function, ast.Attribute):
            return function.attr == "join"
        return isinstance(function, ast.Name) and function.id in _COLLECT and function.id not in self._local

    def _only_looks(self, function: ast.expr) -> bool:
        """True for a function that adds nothing to a dict: `len`, `json.dumps`, a logger's methods."""
        if isinstance(function, ast.Attribute):
            return function.attr in _LOGS
        return isinstance(function, ast.Name) and isinstance(
            self._value(function), BuiltinFunctionType | type
        )

    def _is_injection(self, node: ast.Call) -> bool:
        """True for a call of ADK's `inject_session_state(template, context)`."""
        function = self._value(node.func)
        return (
            getattr(function, "__name__", "") == "inject_session_state"
            and str(getattr(function, "__module__", "")).startswith("google.adk.")
            and all(map(self._leads_to_state, node.args[1:]))
        )

    def _injected(self, template: ast.expr, there: There, sure: bool) -> There:
        there = self._expr(template, there, sure=sure)
        text = self._value(template)
        self._whole = self._whole and isinstance(text, str)
        for one in placeholders(text) if isinstance(text, str) else ():
            if not one.artifact:
                level = "optional" if one.optional else self._level(sure)
                self._note(one.key, self._place(template), there, level)
        return there

    def _method(self, node: ast.Call, name: str, holder: str, there: There, sure: bool) -> There:
        if name == "update":
            call = ast.copy_location(ast.Call(ast.Name("dict"), node.args, node.keywords), node)
            there, found = self._dict_call(call, there, sure)
            return self._put(holder, found, there)
        for given in (*node.args[1:], *(keyword.value for keyword in node.keywords)):
            there = self._expr(given, there, sure=sure)
        if not node.args or name in _LOOKS:
            self._whole = self._whole and bool(holder)
            return there
        key = self._key(node.args[0])
        if not holder:
            required = name == "pop" and len(node.args) == 1
            self._read(node.args[0], there, self._level(sure) if required else "optional")
        if name == "setdefault":
            value = node.args[1] if len(node.args) > 1 else ast.Constant(None)
            return self._write(holder, node.args[0], value, there)
        if name == "pop" and key is not None:
            return self._remove(holder, key, node.args[0], there)
        return there

    def _ask(self, node: ast.Call, called: FunctionCall, there: There, sure: bool) -> There:
        """Read a call of a function that is given the state."""
        for one in (*node.args, *(keyword.value for keyword in node.keywords)):
            one = one.value if isinstance(one, ast.Starred) else one
            if not self._leads_to_state(one) and getattr(one, "id", "") not in self._rest:
                there = self._expr(one, there, sure=sure)
        seen = self._around.uses(called)
        flags = cast(FunctionType, called.function).__code__.co_flags
        runs = (
            node in self._awaited if flags & CO_COROUTINE else not flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)
        )
        self._whole, self._by_state = self._whole and seen.whole, self._by_state and seen.by_state
        for one in seen.reads:
            strict = self._level(sure) == "required" and runs
            self._note(one.key, one.where, there, one.level if strict else one.softened)
        for one in seen.removes:
            there = self._remove("", one.key, node, there)
        always = frozenset(one.key for one in seen.writes if one.always and runs and not self._depth)
        return self._put("", [DictKey(one.key, node, sure=one.key in always) for one in seen.writes], there)

    def nested(
        self, node: _Nested | _Comprehension, there: There, sure: bool, *, all_rounds: bool = False
    ) -> There:
        """Read a function, a class or a comprehension inside the function.

        Args:
            all_rounds: true if each element of a generator is certainly computed.
        """
        if isinstance(node, _Comprehension):
            there = self._expr(node.generators[0].iter, there, sure=sure)
            first = node.generators[0]
            rounds = self._rounds(first.target, first.iter) if len(node.generators) == 1 else None
            if rounds is not None:
                certain = sure and (all_rounds or not isinstance(node, ast.GeneratorExp))
                return self._each_round(node, rounds, there, certain)
            names = [n.id for one in node.generators for n in ast.walk(one.target) if isinstance(n, ast.Name)]
        else:
            given = node.args if not isinstance(node, ast.ClassDef) else None
            names = [one.arg for one in ast.walk(given) if isinstance(one, ast.arg)] if given else []
            self._local.add(getattr(node, "name", ""))
        made = there
        with self._apart(names):
            if isinstance(node, _Comprehension):
                self._comprehended(node, there)
            elif isinstance(node, ast.Lambda):
                self._expr(node.body, there, sure=False)
            else:
                made = self._body(node, there)
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            self._inner[node.name] = made
        return there

    def _each_round(
        self,
        node: _Comprehension,
        rounds: Sequence[Mapping[str, ast.expr | None]],
        there: There,
        sure: bool,
    ) -> There:
        """Read a comprehension over a constant, round by round."""
        for names in rounds:
            with self._meaning_of(names):
                inside, certain = there, sure
                for test in node.generators[0].ifs:
                    inside = self._expr(test, inside, sure=certain) | self._supposing(test)[0]
                    certain = False
                for part in _parts_of(node):
                    inside = self._expr(part, inside, sure=certain)
                there = inside if certain else there
        return there

    def _comprehended(self, node: _Comprehension, there: There) -> None:
        for index, one in enumerate(node.generators):
            if index:
                there = self._expr(one.iter, there, sure=False)
            for test in one.ifs:
                there = self._expr(test, there, sure=False) | self._supposing(test)[0]
        for part in _parts_of(node):
            self._expr(part, there, sure=False)

    def _waits(self, node: ast.Await | ast.Yield | ast.YieldFrom, there: There, sure: bool) -> There:
        self._by_state = False
        if not isinstance(node, ast.Await) and not self._depth:
            self._returns_known = False
            self._judge(node.value)
        if isinstance(node, ast.Await):
            self._awaited.append(node.value)
        there = self._parts(node, there, sure)
        return self._emit(node.value, there) if isinstance(node, ast.Yield) else there

    def _named(self, node: ast.NamedExpr, there: There, sure: bool) -> There:
        return there if self._is_alias(node.target) else self._expr(node.value, there, sure=sure)

    def _is_alias(self, target: ast.expr) -> bool:
        return isinstance(target, ast.Name) and target.id in (self._states | self._contexts)

    def _judge(self, value: ast.expr | None) -> None:
        """Record a result that a user's function makes, because it may be an event that changes state."""
        if isinstance(value, ast.Call):
            called = value.func
            while isinstance(called, ast.Attribute):
                called = called.value
            made = self._value(called) if isinstance(called, ast.Name) else None
            ours = made is not None and not str(getattr(made, "__module__", "")).startswith("google.")
            self._gives = self._gives and not ours

    @abstractmethod
    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, there: There) -> There:
        """Read a nested function or class, and return the keys that a call makes definite."""

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
_LOOKS: Final = frozenset({"copy", "items", "keys", "values"})
_LOGS: Final = frozenset({"dumps", "debug", "info", "warning", "error", "exception", "critical"})
_COLLECT: Final = frozenset({"sum", "list", "tuple", "set", "dict", "sorted", "max", "min", "frozenset"})


def _parts_of(node: _Comprehension) -> tuple[ast.expr, ...]:
    return (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
