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

PAGE: Final = Path("docs/contribute/internals.md")
BEGIN: Final = "<!-- packages: `python -m codegen write` writes this part -->"
END: Final = "<!-- end of packages -->"

_SOURCE: Final = Path("src/adk_fluent")
_BACKEND: Final = "backends/adk"


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
    return list(dict.fromkeys([*(name for name in names if _module(root, name).exists()), *every]))


@cache
def imports(root: Path) -> Mapping[str, frozenset[str]]:
    """Package → the packages that it imports, in functions too; imports for annotations do not count."""
    found: dict[str, set[str]] = {package: set() for package in layers(root)}
    for package, names in found.items():
        folder, module = root / _SOURCE / package, _module(root, package)
        for path in folder.rglob("*.py") if folder.is_dir() else [module]:
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
    return "\n".join(head + [f"| `{name}` | {purpose} | {used} |" for name, purpose, used in rows])


def _imported(tree: ast.AST) -> Iterator[str]:
    """The packages that a module imports when it runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adk_fluent."):
            yield str(node.module).split(".")[1]
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from _imported(node)


def _module(root: Path, package: str) -> Path:
    """The module that has a package's docstring and public names; small packages are one file."""
    inside = root / _SOURCE / package / "__init__.py"
    return inside if inside.exists() else root / _SOURCE / f"{package}.py"


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
    return list(_listed(ast.parse(module.read_text(encoding="utf-8"))))


def _listed(tree: ast.Module) -> Iterator[str]:
    """The names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed: list[str] = ast.literal_eval(node.value)
            yield from listed
