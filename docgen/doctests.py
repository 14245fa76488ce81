"""Shows the examples of docstrings as code: an extension of Griffe, which reads the docstrings."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around each doctest, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


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
