"""The picture and the table of packages in `docs/contribute/internals.md`: the packages and their imports."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final

from .render_exports import is_lazy, public_names

PAGE: Final = Path("docs/contribute/internals.md")
BEGIN: Final = "<!-- packages: `python -m codegen write` writes this part -->"
END: Final = "<!-- end of packages -->"

_SOURCE: Final = Path("src/adk_fluent")
_BACKEND: Final = "backends/adk"
_NESTED: Final = {"a2a.protocol": "backends", "adopt.reading": "expr"}
"""Packages inside others that stand lower than these → the layer right above them."""


def render_page(root: Path) -> str:
    """Render the page of the repository at `root`, with the part between the two marks as it is today."""
    before, _, rest = (root / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{picture(imports(root))}\n\n{table(root)}\n\n{END}{after}"


def layers(root: Path) -> list[str]:
    """The packages, those of the import rules first, from the highest layer to the lowest."""
    settings: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    (rule,) = (each for each in contracts if each["id"] == "layers")
    names = (name for line in rule["layers"] for name in re.findall(r"\((\w+)\)", line))
    every = sorted(each.parent.name for each in (root / _SOURCE).glob("*/__init__.py"))
    found = list(dict.fromkeys([*(name for name in names if _module(root, name).exists()), *every]))
    for nested, above in _NESTED.items():
        found.insert(found.index(above) + 1, nested)
    return found


@cache
def imports(root: Path) -> Mapping[str, frozenset[str]]:
    """Package → the packages that it imports, in functions too; imports for annotations do not count."""
    found: dict[str, set[str]] = {package: set() for package in layers(root)}
    for package, names in found.items():
        module = _module(root, package)
        for path in module.parent.rglob("*.py") if module.name == "__init__.py" else [module]:
            inside = ".".join(path.relative_to(root / _SOURCE).with_suffix("").parts)
            if _package(inside) == package:
                names |= set(_imported(ast.parse(path.read_text(encoding="utf-8")))) & found.keys()
    return {package: frozenset(names - {package}) for package, names in found.items()}


def picture(graph: Mapping[str, frozenset[str]]) -> str:
    """A Mermaid picture of a graph without circles; an arrow that others make up together is left out."""
    below: dict[str, frozenset[str]] = {}
    for package in TopologicalSorter(graph).static_order():  # what a package imports comes before it
        below[package] = graph[package].union(*(below[name] for name in graph[package]))
    lines = ["```mermaid", "flowchart TB"]
    for package, names in graph.items():
        direct = names.difference(*(below[name] for name in names))
        lines += [f"    {package} --> {name}" for name in graph if name in direct]
    return "\n".join([*lines, "```"])


def table(root: Path) -> str:
    """What each package is for, and what others use of it."""
    packages = layers(root)
    rows = [(name, _purpose(root, name), _interface(root, name)) for name in packages]
    at = packages.index("backends") + 1
    rooms = sorted(each.parent.name for each in (root / _SOURCE / _BACKEND).glob("*/__init__.py"))
    inside = [(f"{_BACKEND}/{room}", _purpose(root, f"{_BACKEND}/{room}"), "") for room in rooms]
    names = _names(root / _SOURCE / _BACKEND / "api.py")
    rows[at:at] = [(_BACKEND, _purpose(root, _BACKEND), f"`api.py`: {len(names)} names"), *inside]
    head = ["| package | purpose | interface |", "| --- | --- | --- |"]
    return "\n".join(
        head + [f"| `{name.replace('.', '/')}` | {purpose} | {used} |" for name, purpose, used in rows]
    )


def _imported(tree: ast.AST) -> Iterator[str]:
    """The packages that a module imports when it runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adk_fluent."):
            yield _package(str(node.module).removeprefix("adk_fluent."))
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from _imported(node)


def _package(module: str) -> str:
    """The package of a module, both named without `adk_fluent`."""
    nested = (name for name in _NESTED if f"{module}.".startswith(f"{name}."))
    return next(nested, module.partition(".")[0])


def _module(root: Path, package: str) -> Path:
    """The module that has a package's docstring and public names; small packages are one file."""
    path = package.replace(".", "/")
    inside = root / _SOURCE / path / "__init__.py"
    return inside if inside.exists() else root / _SOURCE / f"{path}.py"


def _purpose(root: Path, package: str) -> str:
    """The first paragraph of a package's docstring, without its full stop."""
    tree = ast.parse(_module(root, package).read_text(encoding="utf-8"))
    said = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    return " ".join(said.split()).removesuffix(".").replace("|", "\\|")


def _interface(root: Path, package: str) -> str:
    """The public names of a package; where it has none, others import its modules."""
    names = list(_names(_module(root, package)))
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown or "its modules"


def _names(module: Path) -> list[str]:
    if is_lazy(module):
        return sorted(public_names(module.with_suffix(".pyi"), module.parent.name))
    return list(_listed(ast.parse(module.read_text(encoding="utf-8"))))


def _listed(tree: ast.Module) -> Iterator[str]:
    """The names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed: list[str] = ast.literal_eval(node.value)
            yield from listed
