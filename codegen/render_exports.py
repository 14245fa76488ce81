"""The table of names that packages import when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

HEAD = '''"""Module -> name -> the module that defines it. Written by `python -m codegen`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXPORTS: Final[Mapping[str, Mapping[str, str]]] = {
'''


def render_exports(package: Path) -> str:
    """Render the table for each module below `package` that calls `lazy(__name__)`.

    The imports below `if TYPE_CHECKING:` say where each name is defined: type checkers read them there.
    """
    lines: list[str] = []
    for module, homes in sorted(_modules(package)):
        lines.append(f'    "{module}": {{')
        lines += [f'        "{name}": "{home}",' for name, home in sorted(homes.items())]
        lines.append("    },")
    return HEAD + "\n".join(lines) + "\n}\n"


def _modules(package: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "= lazy(__name__)" in text:
            parts = path.relative_to(package.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), _homes(text)


def _homes(text: str) -> Mapping[str, str]:
    blocks = (node.body for node in ast.parse(text).body if isinstance(node, ast.If))
    imports = (node for body in blocks for node in body if isinstance(node, ast.ImportFrom))
    return {
        alias.name: str(node.module)
        for node in imports
        if str(node.module).startswith("adk_fluent.")
        for alias in node.names
    }
