"""The meaning of names in a function: the state, ADK's context, a dict that it makes, or a constant."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from enum import Enum
from types import FunctionType
from typing import Final, TypeGuard

from adk_fluent.ir.constants import bindings, constant
from adk_fluent.ir.state_keys import Sightings, StateFieldRef

FunctionSource = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
There = frozenset[tuple[str, str]]
"""The definite keys at a point: pairs of the local dict that holds the key ("" for the state) and the key."""
NOTHING: Final[There] = frozenset()


class StateNames:
    """The names in one function that mean the state, a context or a dict.

    Args:
        node: the syntax node of the function.
        contexts: the parameters that are ADK's context, or the state itself.
        resolve: returns the value of a name from outside the function, or raises `LookupError`.
        helper: returns the uses of state in a called function, whose argument at this index is the state.
        file: the name of the file, for messages.
    """

    def __init__(
        self,
        node: FunctionSource,
        contexts: Iterable[str],
        resolve: Callable[[str], object],
        helper: Callable[[FunctionType, int], Sightings],
        file: str,
    ) -> None:
        self._node, self._resolve, self._helper, self._file = node, resolve, helper, file
        self._contexts = set(contexts)
        self._states: set[str] = set()
        self._dicts: set[str] = set()
        self._whole = self._gives = self._returns_known = self._by_state = True
        self._depth = 0
        self._left = False
        self._caught = False
        given = node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        self._local = {one.arg for one in parameters if one is not None}
        self._assigned: dict[str, ast.expr] = {}
        self._start()
        self._bound()

    def _start(self) -> None:
        """Create the attributes for the results; called before the names are read."""

    # --- names ------------------------------------------------------------------------------------

    def _bound(self) -> None:
        """Find the names that mean the state, a context, or a dict that the function makes."""
        values: dict[str, list[ast.expr | None]] = {}
        for node in ast.walk(self._node):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if len(targets) == 1 and isinstance(targets[0], ast.Name) and node.value is not None:
                    values.setdefault(targets[0].id, []).append(node.value)
                    continue
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                values.setdefault(node.id, [])
                self._local.add(node.id)
        stored = [
            n.id for n in ast.walk(self._node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
        self._whole = self._contexts.isdisjoint(stored)
        own = bindings(self._node).items()
        self._assigned = {name: value for name, value in own if value and stored.count(name) == 1}
        for _ in range(3):  # an alias of an alias needs another pass: `a = ctx.state; b = a`
            for name, found in values.items():
                only = bool(found) and len(found) == stored.count(name)
                if found and all(value and self._is_state(value) for value in found) and only:
                    self._states.add(name)
                elif only and all(isinstance(v, ast.Attribute) and self._of_context(v) for v in found):
                    self._contexts.add(name)
                elif only and all(isinstance(v, ast.Dict) or is_dict_call(v) for v in found):
                    self._dicts.add(name)

    @contextmanager
    def _apart(self, names: Iterable[str]) -> Generator[None]:
        """Read a part that may never run or run often; in this part, `names` have another meaning."""
        kept = self._contexts, self._states, self._dicts, self._local, self._assigned
        hidden = set(names)
        self._contexts, self._states = self._contexts - hidden, self._states - hidden
        self._dicts, self._local = self._dicts - hidden, self._local | hidden
        self._assigned = {name: value for name, value in self._assigned.items() if name not in hidden}
        self._depth += 1
        yield
        self._depth -= 1
        self._contexts, self._states, self._dicts, self._local, self._assigned = kept

    def _of_context(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._contexts

    def _is_state(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._states or node.id in self._contexts
        return isinstance(node, ast.Attribute) and (
            node.attr in ("state", "state_delta") and self._of_context(node)
        )

    def _holder(self, node: ast.expr) -> str | None:
        """The holder of a subscript: "" for the state, or the name of a dict; `None` for anything else."""
        if self._is_state(node):
            return ""
        return node.id if isinstance(node, ast.Name) and node.id in self._dicts else None

    def _key(self, node: ast.expr) -> str | None:
        value = self._value(node)
        value = value.value if isinstance(value, Enum) and isinstance(value, str) else value
        if isinstance(value, StateFieldRef):
            return value.key
        return value if isinstance(value, str) and not isinstance(value, Enum) else None

    def _value(self, node: ast.expr) -> object:
        """The value of a constant expression; `None` if it is unknown."""
        return constant(node, self._meaning)

    def _meaning(self, name: str) -> object:
        if name not in self._local:
            return self._resolve(name)
        value = self._assigned.pop(name, None)
        if value is None:
            return self._resolve(f"={name}")
        try:  # the name is removed for this time, so that `a = a + 1` does not recurse forever
            return constant(value, self._meaning)
        finally:
            self._assigned[name] = value

    # --- the facts that a test implies ------------------------------------------------------------

    def _supposing(self, test: ast.expr) -> tuple[There, There]:
        """The keys that are definite if a test holds, and those that are if it does not."""
        if isinstance(test, ast.NamedExpr):
            return self._supposing(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yes, no = self._supposing(test.operand)
            return no, yes
        if isinstance(test, ast.BoolOp):
            ways = [self._supposing(value) for value in test.values]
            if isinstance(test.op, ast.And):
                return NOTHING.union(*(yes for yes, _ in ways)), NOTHING
            return NOTHING, NOTHING.union(*(no for _, no in ways))
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test)
        return self._got(test), NOTHING

    def _compared(self, test: ast.Compare) -> tuple[There, There]:
        op, right = test.ops[0], test.comparators[0]
        if isinstance(op, ast.In | ast.NotIn):
            holder, key = self._holder(right), self._key(test.left)
            held = NOTHING if holder is None or key is None else frozenset({(holder, key)})
            return (held, NOTHING) if isinstance(op, ast.In) else (NOTHING, held)
        got, is_none = self._got(test.left), isinstance(right, ast.Constant) and right.value is None
        if is_none and isinstance(op, ast.Is | ast.Eq):
            return NOTHING, got
        equal = isinstance(op, ast.Eq | ast.Is) and isinstance(right, ast.Constant)
        return (got if equal or (is_none and isinstance(op, ast.IsNot | ast.NotEq)) else NOTHING), NOTHING

    def _got(self, node: ast.expr) -> There:
        """The key of `state.get("key")`, which is definite if the result is not `None`."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            holder = self._holder(node.func.value)
            if holder is not None and len(node.args) == 1 and (key := self._key(node.args[0])) is not None:
                return frozenset({(holder, key)})
        return NOTHING


def is_dict_call(node: ast.expr | None) -> TypeGuard[ast.Call]:
    """True for a call `dict(key=value, ...)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "dict":
        return False
    return not node.args and all(keyword.arg for keyword in node.keywords)
