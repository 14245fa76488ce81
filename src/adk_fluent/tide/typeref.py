"""Types as plain values: resolved from live annotations, printed, read back, compared.

Two spellings of one type give equal `TypeRef`s: aliases are followed, `Optional[X]` is `X | None`,
unions are flat and sorted, and classes go by their bare name, so moving a class between modules is
not a change of type.

    >>> from typing import Optional, Union
    >>> str(resolve(Optional[Union[int, str]])) == str(resolve("str | int | None"))
    True
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

UNION, CALLABLE, LITERAL, ARGUMENTS = "Union", "Callable", "Literal", "[]"

# ADK 1.26 merged its two callback contexts into one class; before that ToolContext extended CallbackContext.
# What a callback receives is the same thing, so neither spelling counts as a change of signature.
_UNIFIED = {"CallbackContext": "Context", "ToolContext": "Context"}

# A union member from any other package is there only where that package is installed (google-genai adds
# Pillow's Image this way), so it says nothing about the ADK release.
_ALWAYS_INSTALLED = frozenset(sys.stdlib_module_names) | {"google", "pydantic", "typing_extensions"}


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A type by bare name with its arguments; `TypeRef("list", (TypeRef("str"),))` is `list[str]`.

    Unions are named `Union`, the parameter list of a `Callable` is its first argument and named `[]`,
    and the arguments of `Literal` are named by their `repr`.
    """

    name: str
    args: tuple[TypeRef, ...] = ()

    def __str__(self) -> str:
        inner = [str(a) for a in self.args]
        if self.name == UNION:
            return " | ".join(inner)
        if self.name == ARGUMENTS:
            return f"[{', '.join(inner)}]"
        return f"{self.name}[{', '.join(inner)}]" if inner else self.name


NONE, ANY, ANYTHING = TypeRef("None"), TypeRef("Any"), TypeRef("...")

# ADK writes bare generics where every use is the same: JSON objects, and callables of any signature.
_BARE = {
    "dict": TypeRef("dict", (TypeRef("str"), ANY)),
    "list": TypeRef("list", (ANY,)),
    CALLABLE: TypeRef(CALLABLE, (ANYTHING, TypeRef("object"))),
}


def union(members: Iterable[TypeRef]) -> TypeRef:
    """The union of `members`: flat, without repeats, sorted, `None` last; of nothing it is `object`."""
    flat = {m for member in members for m in (member.args if member.name == UNION else (member,))}
    ordered = sorted(flat, key=lambda m: (m == NONE, str(m)))
    if len(ordered) > 1:
        return TypeRef(UNION, tuple(ordered))
    return ordered[0] if ordered else TypeRef("object")


def make(name: str, args: tuple[TypeRef, ...] = ()) -> TypeRef:
    """A `TypeRef` with ADK's unified classes and bare generics normalised."""
    name = _UNIFIED.get(name, name)
    if name == "NoneType":
        return NONE
    return _BARE.get(name, TypeRef(name)) if not args else TypeRef(name, args)


def resolve(annotation: object, seen: dict[str, type] | None = None) -> TypeRef:
    """The type that `annotation` means: a live object, a forward reference or a string.

    Classes met on the way are recorded in `seen` by bare name, for whoever has to import them.
    """
    found: dict[str, type] = {} if seen is None else seen
    if isinstance(annotation, str):
        return parse(annotation)
    if isinstance(annotation, typing.ForwardRef):
        return parse(annotation.__forward_arg__)
    if isinstance(annotation, list):  # the parameters of a Callable
        return TypeRef(ARGUMENTS, tuple(resolve(a, found) for a in typing.cast("list[object]", annotation)))
    if annotation is None or annotation is types.NoneType:
        return NONE
    if annotation is Ellipsis:
        return ANYTHING
    if type(annotation).__name__ == "TypeAliasType":  # `type X = ...`, of typing or of typing_extensions
        return resolve(typing.cast(typing.Any, annotation).__value__, found)
    origin = typing.get_origin(annotation)
    return (
        _plain(annotation, found) if origin is None else _generic(origin, typing.get_args(annotation), found)
    )


def _generic(origin: object, args: tuple[object, ...], seen: dict[str, type]) -> TypeRef:
    if origin is typing.Annotated:
        return resolve(args[0], seen)
    if origin is typing.Union or origin is types.UnionType:
        return union(resolve(a, seen) for a in args if _is_always_there(a))
    if origin is typing.Literal:
        return TypeRef(LITERAL, tuple(TypeRef(repr(a)) for a in args))
    return make(_plain(origin, seen).name, tuple(resolve(a, seen) for a in args))


def _plain(annotation: object, seen: dict[str, type]) -> TypeRef:
    if isinstance(annotation, typing.TypeVar):
        return make(annotation.__name__)
    name = str(getattr(annotation, "__name__", annotation))
    if isinstance(annotation, type) and seen.setdefault(name, annotation) is not annotation:
        raise TypeError(
            f"two classes are called {name}: {seen[name].__module__} and {annotation.__module__};"
            " teach adk_fluent.tide.typeref to tell them apart"
        )
    return make(name)


def _is_always_there(annotation: object) -> bool:
    module, name = (str(getattr(annotation, a, "")) for a in ("__module__", "__qualname__"))
    if not isinstance(annotation, type):
        return True
    return module.partition(".")[0] in _ALWAYS_INSTALLED and not name.startswith("_")


def parse(text: str) -> TypeRef:
    """Read what `str(TypeRef)` prints, and source spellings such as `typing.Optional[types.Content]`."""
    return _from_ast(ast.parse(text.strip(), mode="eval").body)


def _from_ast(tree: ast.expr) -> TypeRef:
    match tree:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return make(name)
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=str(text)):
            return parse(text)
        case ast.Constant(value=value) if value is Ellipsis:
            return ANYTHING
        case ast.List(elts=elements):
            return TypeRef(ARGUMENTS, tuple(map(_from_ast, elements)))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return union((_from_ast(left), _from_ast(right)))
        case ast.Subscript(value=value, slice=index):
            return _subscript(_from_ast(value).name, index.elts if isinstance(index, ast.Tuple) else [index])
        case _:
            raise ValueError(f"not a type that adk-fluent understands: {ast.unparse(tree)}")


def _subscript(name: str, arguments: list[ast.expr]) -> TypeRef:
    match name:
        case "Literal":
            return TypeRef(LITERAL, tuple(TypeRef(ast.unparse(a)) for a in arguments))
        case "Optional":
            return union((_from_ast(arguments[0]), NONE))
        case "Union":
            return union(map(_from_ast, arguments))
        case "Annotated":
            return _from_ast(arguments[0])
        case _:
            name = {"Type": "type", "List": "list", "Dict": "dict", "Tuple": "tuple"}.get(name, name)
            return make(name, tuple(map(_from_ast, arguments)))


def is_builtin(name: str) -> bool:
    """Whether `name` needs no import."""
    return hasattr(builtins, name)


def literal(value: object) -> str | None:
    """`value` as source text where that is stable: numbers, strings, booleans, `None`, enum members."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return None
