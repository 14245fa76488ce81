"""The meaning of names in a function: the state, ADK's context, a dict that it makes, or a constant."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from enum import Enum
from types import FunctionType
from typing import Any, Final, NamedTuple, cast

from adk_fluent.ir.constants import bindings, constant
from adk_fluent.ir.state_keys import Sightings, StateFieldRef

FunctionSource = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
There = frozenset[tuple[str, str]]
"""The definite keys at a point: pairs of the holder of the key and the key. The holder "" is the state, "-"
holds the keys that the state certainly lacks, and any other name is a local dict. A `?` in front of a dict's
name means that the value may be `None`."""
NOTHING: Final[There] = frozenset()


class FunctionCall(NamedTuple):
    """A call of another function, as far as the source shows its arguments.

    Attributes:
        function: the called function.
        states: its parameters that are the state or a context; `None` if their names or types show them.
        fixed: the values of parameters that are constants, `self` included.
        unknown: the parameters whose value the source does not show, so that their defaults do not count.
    """

    function: Callable[..., object]
    states: tuple[str, ...] | None
    fixed: Mapping[str, object]
    unknown: frozenset[str] = frozenset()


class OuterScope(NamedTuple):
    """The names, calls and keys from outside that a function uses.

    Attributes:
        resolve: returns the value of a name, and of a parameter as `=name`; raises `LookupError`.
        uses: returns the uses of state in a called function.
        source: returns the syntax node of a function, or `None`.
        file: the name of the function's file, for messages.
    """

    resolve: Callable[[str], object]
    uses: Callable[[FunctionCall], Sightings]
    source: Callable[[FunctionType], FunctionSource | None]
    file: str


class StateNames:
    """The names in one function that mean the state, a context or a dict.

    Args:
        node: the syntax node of the function.
        contexts: the parameters that are ADK's context, or the state itself.
        around: the function's surroundings.
    """

    def __init__(self, node: FunctionSource, contexts: Iterable[str], around: OuterScope) -> None:
        self._node, self._around = node, around
        self._contexts = set(contexts)
        self._states: set[str] = set()
        self._dicts: set[str] = set()
        self._whole = self._gives = self._returns_known = self._by_state = True
        self._depth = 0
        given = node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        self._rest = {one.arg for one in (given.vararg, given.kwarg) if one is not None}
        self._local = {one.arg for one in parameters} | self._rest
        self._varying: set[str] = set()
        self._assigned: dict[str, ast.expr] = {}
        self._start()
        self._bound()

    def _start(self) -> None:
        """Create the attributes for the results; called before the names are read."""

    # --- names ------------------------------------------------------------------------------------

    def _bound(self) -> None:
        """Find the names that mean the state, a context, or a dict that the function makes."""
        values: dict[str, list[ast.expr]] = {}
        stored: list[str] = []
        for node in ast.walk(self._node):
            for name, value in _pairs(node):
                values.setdefault(name, []).append(value)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                stored.append(node.id)
        grown = {
            node.target.id: node
            for node in ast.walk(self._node)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and grows(node)
        }
        self._local |= set(stored)
        self._varying |= set(stored)
        own = bindings(self._node).items()
        self._assigned = {name: value for name, value in own if value and stored.count(name) == 1}
        given = set(self._contexts)
        for _ in range(3):  # an alias of an alias needs another pass: `a = ctx.state; b = a`
            for name, found in values.items():
                if len(found) != stored.count(name) - (name in grown):
                    continue
                if all(map(self._is_state, found)):
                    self._states.add(name)
                if name not in grown and all(map(self._is_part, found)):
                    self._contexts.add(name)
                if all(map(makes_dict, found)):
                    self._dicts.add(name)
        self._whole = given.isdisjoint(name for name in stored if stored.count(name) > (name in grown))

    @contextmanager
    def _apart(self, names: Iterable[str]) -> Generator[None]:
        """Read a part that may never run or run often; in this part, `names` have another meaning."""
        self._depth += 1
        with self._meaning_of(dict.fromkeys(names)):
            yield
        self._depth -= 1

    @contextmanager
    def _meaning_of(self, names: Mapping[str, ast.expr | None]) -> Generator[None]:
        """Read a part in which names have other values; `None` for an unknown value."""
        kept = self._contexts, self._states, self._dicts, self._local, self._varying, self._assigned
        hidden = names.keys()
        self._contexts, self._states = self._contexts - hidden, self._states - hidden
        self._dicts, self._local = self._dicts - hidden, self._local | hidden
        self._varying = self._varying | hidden
        self._assigned = {name: value for name, value in self._assigned.items() if name not in hidden}
        self._assigned |= {name: value for name, value in names.items() if value is not None}
        yield
        self._contexts, self._states, self._dicts, self._local, self._varying, self._assigned = kept

    def _of_context(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._contexts

    def _is_part(self, node: ast.expr) -> bool:
        """True for a context under another name, or a part of one other than the state."""
        is_name = isinstance(node, ast.Name) and node.id not in self._states
        return (
            (is_name or isinstance(node, ast.Attribute))
            and self._of_context(node)
            and not self._is_held(node)
        )

    def _is_held(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in ("state", "state_delta")

    def _is_state(self, node: ast.expr) -> bool:
        node = node.value if isinstance(node, ast.NamedExpr) else node
        if isinstance(node, ast.Name):
            return node.id in self._states or node.id in self._contexts
        return isinstance(node, ast.Attribute) and (
            node.attr in ("state", "state_delta") and self._of_context(node)
        )

    def _leads_to_state(self, node: ast.expr) -> bool:
        """True for the state, a context, and the objects of a context that hold the state."""
        objects = ("session", "actions", "_invocation_context")
        held = isinstance(node, ast.Attribute) and node.attr in objects and self._of_context(node)
        return held or self._is_state(node)

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
            return self._around.resolve(name)
        value = self._assigned.pop(name, None)
        if value is None:
            if name in self._varying:
                raise LookupError(name)
            return self._around.resolve(f"={name}")
        try:  # the name is removed for this time, so that `a = a + 1` does not recurse forever
            return constant(value, self._meaning)
        finally:
            self._assigned[name] = value

    def _elements(self, node: ast.expr) -> list[ast.expr] | None:
        """The elements of a constant collection; `None` if they are unknown or too many."""
        found: list[ast.expr | None] | None = None
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            found = [None if isinstance(one, ast.Starred) else one for one in node.elts]
        elif isinstance(node, ast.Dict):
            found = [*node.keys]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            inner = self._elements(node.args[0]) if node.func.id in _COPIES else None
            return inner if node.func.id != "enumerate" else _numbered(inner)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            return self._parts_of_dict(node.func.value, node.func.attr)
        else:
            found = _constants(node, self._value(node))
        known = [one for one in found or () if one is not None]
        return known if found is not None and len(known) == len(found) <= _MOST else None

    def _parts_of_dict(self, node: ast.expr, part: str) -> list[ast.expr] | None:
        items = self._items(node) if part in ("items", "keys", "values") else None
        if items is None or len(items) > _MOST:
            return None
        pairs = [ast.copy_location(ast.Tuple([key, value], ast.Load()), node) for key, value in items]
        return [pair if part == "items" else pair.elts[part == "values"] for pair in pairs]

    def _items(self, node: ast.expr) -> list[tuple[ast.expr, ast.expr]] | None:
        """The keys and values of a constant dict; `None` if they are unknown."""
        if isinstance(node, ast.Dict):
            known = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key]
            return known if len(known) == len(node.keys) else None
        value = self._value(node)
        if not isinstance(value, dict) or not _is_named_constant(node):
            return None
        held = cast("dict[object, object]", value)
        return [(_quoted(node, key), _quoted(node, one)) for key, one in held.items()]

    # --- the facts that a test implies ------------------------------------------------------------

    def _supposing(self, test: ast.expr) -> tuple[There, There]:
        """The keys that are definite if a test holds, and those that are if it does not."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yes, no = self._supposing(test.operand)
            return no, yes
        if isinstance(test, ast.BoolOp):
            ways = [self._supposing(value) for value in test.values]
            every = [NOTHING.union(*side) for side in zip(*ways, strict=True)]
            each = [side[0].intersection(*side[1:]) for side in zip(*ways, strict=True)]
            return (every[0], each[1]) if isinstance(test.op, ast.And) else (each[0], every[1])
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0])
        if isinstance(test, ast.Call) and getattr(test.func, "id", "") in ("bool", "len") and test.args:
            return self._supposing(test.args[0])
        if isinstance(test, ast.Call) and getattr(test.func, "id", "") == "isinstance" and test.args:
            return self._got(test.args[0], lambda default: default is not None)
        if isinstance(test, ast.Name) and (value := self._assigned.pop(test.id, None)) is not None:
            yes, no = self._supposing(value)
            self._assigned[test.id] = value
            return self._lasting(yes), self._lasting(no)
        if isinstance(test, ast.NamedExpr):
            return self._supposing(test.value)
        return self._got(test, bool)

    def _lasting(self, facts: There) -> There:
        """The facts that an earlier test still implies: those about keys that the function never removes."""
        return frozenset(one for one in facts if not one[0] and one[1] not in self._removable)

    @property
    def _removable(self) -> frozenset[str | None]:
        nodes = list(ast.walk(self._node))
        popped = [n.args[0] for n in nodes if isinstance(n, ast.Call) and _is_pop(n) and n.args]
        gone = [n.slice for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Del)]
        return frozenset(self._key(one) for one in (*popped, *gone))

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> tuple[There, There]:
        if isinstance(op, ast.In | ast.NotIn):
            holder, key = self._holder(without_keys(right)), self._key(left)
            if holder is not None:
                held = NOTHING if key is None else frozenset({(holder, key)})
                return (held, NOTHING) if isinstance(op, ast.In) else (NOTHING, held)
        compare = _COMPARISONS.get(type(op))
        try:
            limit: object = ast.literal_eval(right)
        except ValueError:
            limit = self._value(right)
            compare = compare if isinstance(limit, str | int | float | bytes | tuple | frozenset) else None
        return (NOTHING, NOTHING) if compare is None else self._got(left, lambda one: compare(one, limit))

    def _got(self, node: ast.expr, test: Callable[[object], object]) -> tuple[There, There]:
        """The key of `state.get("key", default)`, where a test would have another result for the default."""
        node = node.value if isinstance(node, ast.NamedExpr) else node
        if isinstance(node, ast.Name) and (value := self._assigned.pop(node.id, None)) is not None:
            yes, no = self._got(value, test)
            self._assigned[node.id] = value
            return self._lasting(yes), self._lasting(no)
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
            or node.func.attr != "get"
        ):
            return NOTHING, NOTHING
        holder, key = self._holder(node.func.value), self._key(node.args[0]) if node.args else None
        if holder is None or key is None or node.keywords:
            return NOTHING, NOTHING
        held = frozenset({(holder, key)})
        try:
            default: Any = ast.literal_eval(node.args[1]) if len(node.args) > 1 else None
            return (NOTHING, held) if test(default) else (held, NOTHING)
        except TypeError:  # a default that cannot be compared
            return held, held
        except ValueError:  # a default that only a run knows
            return NOTHING, NOTHING


_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], object]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_COPIES: Final = ("tuple", "list", "set", "sorted", "reversed", "enumerate", "frozenset")
_MOST: Final = 64
"""The number of elements up to which a loop is read round by round."""


def _pairs(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """The names that an assignment binds, each with its value."""
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or node.value is None:
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    found: list[tuple[str, ast.expr]] = []
    for target in targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
            found += [(one.id, value) for one, value in pairs if isinstance(one, ast.Name)]
        elif isinstance(target, ast.Name):
            found.append((target.id, node.value))
    return found


def grows(node: ast.AugAssign) -> bool:
    """True for `a |= {...}`."""
    return isinstance(node.op, ast.BitOr)


def makes_dict(node: ast.expr | None) -> bool:
    """True for an expression that makes a dict, so that its owner knows all its keys."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return makes_dict(node.left) or makes_dict(node.right)
    called = isinstance(node, ast.Call) and ast.unparse(node.func) in ("dict", "dict.fromkeys")
    return called or isinstance(node, ast.Dict | ast.DictComp)


def without_keys(node: ast.expr) -> ast.expr:
    """`state` for `state.keys()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys":
        return node.func.value
    return node


def _is_pop(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "pop"


def _is_named_constant(node: ast.expr) -> bool:
    """True for a name in capitals, whose collection does not change by convention."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.isupper()


def _constants(node: ast.expr, value: object) -> list[ast.expr | None] | None:
    if isinstance(value, type) and issubclass(value, Enum):
        return [_quoted(node, one) for one in value]
    frozen = isinstance(value, tuple | frozenset)
    if not frozen and not (isinstance(value, list | set | dict) and _is_named_constant(node)):
        return None
    values = cast("Collection[object]", value)
    ordered = sorted(values, key=repr) if isinstance(value, set | frozenset) else values
    return [_quoted(node, one) for one in ordered]


def _quoted(node: ast.expr, value: Any) -> ast.expr:
    return ast.copy_location(ast.Constant(value), node)


def _numbered(elements: list[ast.expr] | None) -> list[ast.expr] | None:
    if elements is None:
        return None
    pairs = [ast.Tuple([_quoted(one, number), one], ast.Load()) for number, one in enumerate(elements)]
    return [ast.copy_location(pair, one) for pair, one in zip(pairs, elements, strict=True)]
