"""The values of constant expressions in source, and the texts made from them. No code of the source runs."""

from __future__ import annotations

import ast
import dis
import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, cast

from adk_fluent.ir.state_keys import StateFieldRef

Resolve = Callable[[str], object]
"""Returns the value of a name; raises `LookupError` if it is unknown."""


class Formatted(NamedTuple):
    """A constant that source formats into a text.

    Attributes:
        text: the constant as it appears in the text.
        value: the constant itself.
        source: the expression in the source.
    """

    text: str
    value: object
    source: str


Piece = str | Formatted | None
"""A part of a text: literal text, a constant, or `None` for a value that only a run knows."""


def constant(node: ast.expr, resolve: Resolve) -> object:
    """The value of a constant expression; `None` if it is unknown.

    >>> constant(ast.parse("f'user:{KEY}'", mode="eval").body, {"KEY": "tier"}.__getitem__)
    'user:tier'
    """
    if isinstance(node, ast.Constant):
        return cast(object, node.value)
    if isinstance(node, ast.Name):
        try:
            return resolve(node.id)
        except LookupError:
            return None
    if isinstance(node, ast.Attribute):
        return _attribute(constant(node.value, resolve), node.attr)
    if isinstance(node, ast.Call) and _is_str_call(node):
        return _as_text(constant(node.args[0], resolve))
    if isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call):
        known = [piece.text if isinstance(piece, Formatted) else piece for piece in pieces(node, resolve)]
        texts = [text for text in known if text is not None]
        return "".join(texts) if len(texts) == len(known) else None
    return None


def _is_str_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "str" and len(node.args) == 1


def _attribute(owner: object, name: str) -> object:
    """A constant that a class, a module, a member of an enumeration or a frozen value holds."""
    if isinstance(owner, Enum):
        return cast(object, owner.value) if name in ("value", "_value_") else None
    if isinstance(owner, type) and issubclass(owner, Enum):
        return owner.__members__.get(name)
    if isinstance(owner, StateFieldRef):
        return owner.key if name == "key" else owner.name if name == "name" else None
    if isinstance(owner, type):
        held = next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), None)
        ref = getattr(held, "ref", None)
        return ref if isinstance(ref, StateFieldRef) else held
    if isinstance(owner, ModuleType):
        return vars(owner).get(name)
    if is_dataclass(owner) and cast(Any, owner).__dataclass_params__.frozen:
        return getattr(owner, name, None) if any(one.name == name for one in fields(owner)) else None
    if isinstance(owner, tuple):
        named = cast(Any, owner)
        return getattr(named, name) if name in getattr(named, "_fields", ()) else None
    return _of_object(owner, name)


def _of_object(owner: object, name: str) -> object:
    """A constant of an object: an attribute of its class, or one that only `__init__` sets."""
    own: dict[str, object] = getattr(owner, "__dict__", {})
    if name in own:
        value = own[name]
        return value if isinstance(value, str | Enum) and name not in _reset(type(owner)) else None
    held = _attribute(type(owner), name)
    return cast(object, held) if isinstance(held, str | Enum | tuple | frozenset | StateFieldRef) else None


@lru_cache(maxsize=256)
def _reset(kind: type) -> frozenset[str]:
    """The attributes that methods of a class set, except those that make the object."""
    methods = [one for base in kind.__mro__ for one in vars(base).values() if isinstance(one, FunctionType)]
    return frozenset(
        each.argval
        for one in methods
        if one.__name__ not in ("__init__", "__post_init__", "model_post_init")
        for each in dis.get_instructions(one)
        if each.opname == "STORE_ATTR"
    )


def _as_text(value: object) -> str | None:
    """The text that `str` and f-strings make from a constant; `None` for a value of another type."""
    return format(value) if isinstance(value, str | int | float | Enum | StateFieldRef) else None


# --- texts ----------------------------------------------------------------------------------------


def pieces(node: ast.expr, resolve: Resolve) -> list[Piece]:
    """The parts of the text that an f-string, `+`, `%`, `.format` or `.join` makes; else `[None]`."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else [None]
    if isinstance(node, ast.JoinedStr):
        return [piece for part in node.values for piece in _part(part, resolve)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [piece for side in (node.left, node.right) for piece in _operand(side, resolve)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        template = constant(node.left, resolve)
        return _percent(template, node.right, resolve) if isinstance(template, str) else [None]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        template = constant(node.func.value, resolve)
        if isinstance(template, str) and node.func.attr == "format":
            return _format(template, node, resolve)
        if isinstance(template, str) and node.func.attr == "join" and len(node.args) == 1:
            return _join(template, node.args[0], resolve)
    return [None]


def _part(node: ast.expr, resolve: Resolve) -> list[Piece]:
    if not isinstance(node, ast.FormattedValue):
        return pieces(node, resolve)
    return (
        [None] if node.format_spec or node.conversion not in (-1, ord("s")) else [_slot(node.value, resolve)]
    )


def _slot(node: ast.expr, resolve: Resolve) -> Piece:
    value = constant(node, resolve)
    text = _as_text(value)
    return None if text is None else Formatted(text, value, ast.unparse(node))


def _operand(node: ast.expr, resolve: Resolve) -> list[Piece]:
    if isinstance(node, ast.Name | ast.Attribute) or _is_str_call(node):
        found = _slot(node, resolve)
        is_text = isinstance(found, Formatted) and (isinstance(found.value, str) or _is_str_call(node))
        return [found if is_text else None]
    return pieces(node, resolve)


_PERCENT: Final = re.compile(r"(%%|%s|%\(\w+\)s|%)")


def _percent(template: str, given: ast.expr, resolve: Resolve) -> list[Piece]:
    named = dict(_items(given)) if isinstance(given, ast.Dict) else {}
    values = iter(given.elts if isinstance(given, ast.Tuple) else [given])
    found: list[Piece] = []
    for part in _PERCENT.split(template):
        if part == "%":  # a conversion of another kind
            return [None]
        value = next(values, None) if part == "%s" else named.get(part[2:-2]) if part[:2] == "%(" else None
        if part == "%s" or part[:2] == "%(":
            found.append(None if value is None else _slot(value, resolve))
        else:
            found.append("%" if part == "%%" else part)
    return found


def _items(given: ast.Dict) -> Iterator[tuple[object, ast.expr]]:
    for key, value in zip(given.keys, given.values, strict=True):
        if isinstance(key, ast.Constant):
            yield key.value, value


def _format(template: str, call: ast.Call, resolve: Resolve) -> list[Piece]:
    named = {one.arg: one.value for one in call.keywords if one.arg}
    found: list[Piece] = []
    count = 0
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        return [None]
    for literal, name, spec, conversion in parts:
        found.append(literal)
        if name is None:
            continue
        position = count if name == "" else int(name) if name.isdecimal() else -1
        count += name == ""
        value = named.get(name) if position < 0 else _at(call.args, position)
        plain = value is not None and not spec and conversion in (None, "s")
        found.append(_slot(value, resolve) if plain and value is not None else None)
    return found


def _at(values: Sequence[ast.expr], position: int) -> ast.expr | None:
    plain = position < len(values) and not any(isinstance(one, ast.Starred) for one in values)
    return values[position] if plain else None


def _join(separator: str, given: ast.expr, resolve: Resolve) -> list[Piece]:
    if not isinstance(given, ast.List | ast.Tuple):
        return [None]
    found: list[Piece] = []
    for number, one in enumerate(given.elts):
        found += [separator] * bool(number) + _operand(one, resolve)
    return found


# --- scopes ---------------------------------------------------------------------------------------

SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def bindings(scope: ast.AST) -> dict[str, ast.expr | None]:
    """The names that a function or module binds, each with its value; `None` unless a single `=` binds it.

    >>> bindings(ast.parse("a = 1; b = 2; b += 1"))["b"] is None
    True
    """
    found: dict[str, ast.expr | None] = {}
    for name, value in _bound(scope):
        found[name] = None if name in found else value
    return found


def _bound(scope: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        given = scope.args
        for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if one is not None:
                yield one.arg, None
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1 and isinstance(targets[0], ast.Name) and node.value is not None:
                yield targets[0].id, node.value
                pending.append(node.value)
                continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id, None
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from ((name, None) for name in (*node.names, *node.names))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, None
        if not isinstance(node, SCOPES):
            pending += ast.iter_child_nodes(node)
