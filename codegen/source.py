"""Small helpers that lay out Python source the way the formatter does, at most `WIDTH` columns."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Mapping

from .typeref import ARGUMENTS, CALLABLE, LITERAL, UNION, TypeRef

WIDTH = 110


def spell(ref: TypeRef) -> str:
    """The type as source text on one line."""
    inner = ", ".join(map(spell, ref.args))
    if ref.name == UNION:
        return " | ".join(map(spell, ref.args))
    if ref.name == ARGUMENTS:
        return f"[{inner}]"
    if ref.name == LITERAL:
        return f"Literal[{', '.join(_quoted(a.name) for a in ref.args)}]"
    return f"{ref.name}[{inner}]" if ref.args else ref.name


def _quoted(source: str) -> str:
    value: object = ast.literal_eval(source)
    if not isinstance(value, str):
        return source
    return f'"{value}"' if '"' not in value and "\\" not in source else source


def alias(name: str, ref: TypeRef, indent: str) -> str:
    """`name: TypeAlias = <type>`, broken over lines where it is too long for one."""
    line = f"{indent}{name}: TypeAlias = {spell(ref)}"
    if len(line) <= WIDTH:
        return line
    if ref.name == CALLABLE:
        head, inner, tail = f"{CALLABLE}[", [spell(a) for a in ref.args], "]"
        return "\n".join([f"{indent}{name}: TypeAlias = {head}", *_items(inner, indent), f"{indent}{tail}"])
    members = [spell(a) for a in ref.args]
    body = [f"{indent}    {'' if i == 0 else '| '}{m}" for i, m in enumerate(members)]
    return "\n".join([f"{indent}{name}: TypeAlias = (", *body, f"{indent})"])


def _items(items: list[str], indent: str) -> list[str]:
    line = f"{indent}    {', '.join(items)}"
    return [line] if len(line) <= WIDTH else [f"{indent}    {item}," for item in items]


def signature(name: str, parameter: str, indent: str) -> str:
    """The head of a method with one parameter that returns `Self`."""
    line = f"{indent}def {name}(self, {parameter}) -> Self:"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{indent}def {name}(", *_items(["self", parameter], indent), f"{indent}) -> Self:"])


def constant_tuple(name: str, values: Iterable[str]) -> str:
    """A module constant that is a tuple of strings, one per line."""
    body = "".join(f'    "{value}",\n' for value in values)
    return f"{name}: Final[tuple[str, ...]] = (\n{body})"


def imports(names: Mapping[str, Iterable[str]], indent: str = "") -> str:
    """Sorted `from module import a, b` lines: the standard library first, then the rest."""
    stdlib = [m for m in sorted(names) if m.partition(".")[0] in _STDLIB]
    ours = [m for m in sorted(names) if m.startswith("adk_fluent")]
    theirs = [m for m in sorted(names) if m not in stdlib and m not in ours]
    groups = ["\n".join(_import(m, sorted(names[m]), indent) for m in g) for g in (stdlib, theirs, ours) if g]
    return "\n\n".join(groups)


_STDLIB = frozenset({"collections", "types", "typing", "enum", "datetime"})


def _import(module: str, names: list[str], indent: str) -> str:
    line = f"{indent}from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{indent}from {module} import (", *[f"{indent}    {n}," for n in names], f"{indent})"])


def docstring(paragraphs: Iterable[str], example: Iterable[str], indent: str) -> str:
    """A docstring of wrapped paragraphs followed by an example."""
    wrapped = [
        textwrap.fill(p, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for p in paragraphs
    ]
    wrapped[0] = f'{indent}"""{wrapped[0].removeprefix(indent)}'
    shown = "\n".join(f"{indent}    {line}" for line in example)
    return "\n\n".join([*wrapped, shown]) + f'\n{indent}"""'
