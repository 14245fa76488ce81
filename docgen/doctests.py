"""Shows signatures as `help()` does and examples as code: an extension of Griffe, which reads the source."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any

import griffe

from adk_fluent._exports import EXPORTS


class Doctests(griffe.Extension):
    """Puts a fence around each doctest, which Markdown would take for quotations.

    Where Python is told the signature by `__signature__`, the page has that one, with its docstring.
    """

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """List the public names of a lazy module, whose `__all__` is made at run time."""
        if mod.path in EXPORTS:
            mod.exports = [*sorted(EXPORTS[mod.path])]

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if isinstance(obj, griffe.Function | griffe.Class) and _is_told(obj):
            told(obj)
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def _is_told(obj: griffe.Function | griffe.Class) -> bool:
    """Whether a decorator may have set a signature; to look at each of thousands of objects takes long."""
    of_functions = ("listing_options(", "leaving_out(")
    return any(obj.is_class or str(each.value).startswith(of_functions) for each in obj.decorators)


_KINDS = {kind.value: kind for kind in griffe.ParameterKind}


def told(obj: griffe.Function | griffe.Class) -> None:
    """Give an object the signature and docstring that Python shows, where its source says another one."""
    try:
        found: Any = pydoc.locate(obj.path)
    except pydoc.ErrorDuringImport:  # an extra is missing
        return
    if not isinstance(getattr(found, "__signature__", None), inspect.Signature):
        return
    parameters = griffe.Parameters(*map(_parameter, inspect.signature(found).parameters.values()))
    if isinstance(obj, griffe.Function):
        obj.parameters = parameters
        obj.overloads = None
        if obj.docstring is not None:
            obj.docstring.value = inspect.getdoc(found) or ""
    elif "__init__" not in obj.members:
        itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        obj.set_member(
            "__init__", griffe.Function("__init__", parameters=griffe.Parameters(itself, *parameters))
        )


def _parameter(each: inspect.Parameter) -> griffe.Parameter:
    empty = inspect.Parameter.empty
    return griffe.Parameter(
        each.name,
        annotation=None if each.annotation is empty else str(each.annotation),
        kind=_KINDS[each.kind.description],
        default=None if each.default is empty else repr(each.default),
    )


def fenced(docstring: str) -> str:
    """A docstring with a fence around each doctest and what it prints.

    >>> fenced("Adds.\\n\\n    >>> 1 + 1\\n    2\\n\\nDone.").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Done.']
    """
    lines: list[str] = []
    indent = ""
    inside = section = False
    for line in [*docstring.splitlines(), ""]:
        bare = line.strip()
        if not inside and bare.startswith(">>> "):
            inside, section = True, bool(lines) and lines[-1].strip() in ("Example:", "Examples:")
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent if section else ''}```pycon")
        if inside and not bare:
            inside = False
            lines.append(f"{indent if section else ''}```")
        lines.append(line.removeprefix(indent) if inside and not section else line)
    return "\n".join(lines[:-1])
