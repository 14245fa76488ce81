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

    The module's stub says where each public name is defined: type checkers read it there.
    """
    lines: list[str] = []
    for module, homes in sorted(_modules(package)):
        lines.append(f'    "{module}": {{')
        lines += [f'        "{name}": "{home}",' for name, home in sorted(homes.items())]
        lines.append("    },")
    return HEAD + "\n".join(lines) + "\n}\n"


def _modules(package: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    for path in package.rglob("*.py"):
        if is_lazy(path):
            parts = path.relative_to(package.parent).with_suffix("").parts
            module = ".".join(parts).removesuffix(".__init__")
            yield module, public_names(path.with_suffix(".pyi"), module)


def is_lazy(path: Path) -> bool:
    """True if a module imports its public names on first use."""
    return "= lazy(__name__)" in path.read_text(encoding="utf-8")


def public_names(stub: Path, module: str) -> Mapping[str, str]:
    """The names in the stub of `module`, each with the module that defines it."""
    found: dict[str, str] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            found |= dict.fromkeys((alias.name for alias in node.names), str(node.module))
        elif isinstance(node, ast.AnnAssign):
            found[ast.unparse(node.target)] = module
    return found
