"""Where in the source of a project each agent is made."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adk_fluent.cli.target import Target


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file.

    Attributes:
        file: its path, from the working directory where it is below that, with forward slashes.
        line: the first line is 1.
    """

    file: str
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the agents of a target are made.

    Attributes:
        whole: the file that the target is in.
        by_name: agent → its place.
    """

    whole: Place
    by_name: Mapping[str, Place] = field(default_factory=dict[str, Place])

    def of(self, agent: str) -> Place:
        """Where an agent is made, by its name in the tree; the target's own file if that is not found."""
        reused = re.sub(r"_\d+$", "", agent)
        return self.by_name.get(agent) or self.by_name.get(reused) or self.whole


def places_of(target: Target) -> Places:
    """The places of all agents that are made, under a name that is written down, in files of the target.

    The files are parsed; nothing in them runs.
    """
    found: dict[str, Place] = {}
    home = target.file or target.folder
    if home is None:
        return Places(Place(""))
    for file in _files(home):
        for name, line in _made_in(file):
            found.setdefault(name, Place(_shown(file), line))
    return Places(Place(_shown(target.file or _main_file(home))), found)


def _main_file(folder: Path) -> Path:
    names = ("agent.py", "__init__.py", "root_agent.yaml")
    return next((folder / name for name in names if (folder / name).is_file()), folder)


def _files(home: Path) -> Iterator[Path]:
    """The file itself, then what was imported from its folder or below."""
    if home.is_file():
        yield home
    folder = home if home.is_dir() else home.parent
    loaded = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    yield from sorted(path for path in map(Path, loaded) if path.suffix == ".py" and folder in path.parents)
    if home.is_dir():
        yield from sorted(home.glob("*.yaml"))


def _made_in(file: Path) -> Iterator[tuple[str, int]]:
    """Each name that something is made under in a file, with its line."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix != ".py":
            yield from _in_yaml(text)
            return
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node)
            value = constants.get(name.id) if isinstance(name, ast.Name) else getattr(name, "value", None)
            if isinstance(value, str):
                yield value, node.lineno


def _name(call: ast.Call) -> ast.expr | None:
    """What a call gives as a name: `name=`, or the first argument of what looks like a class."""
    for keyword in call.keywords:
        if keyword.arg == "name":
            return keyword.value
    made = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if call.args and (made[:1].isupper() or made == "named"):
        return call.args[0]
    return None


def _in_yaml(text: str) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(text.splitlines(), 1):
        key, _, value = line.lstrip(" -").partition(":")
        if key == "name" and (name := value.partition("#")[0].strip().strip("\"'")):
            yield name, number


def _shown(path: Path) -> str:
    here = Path.cwd()
    path = path.resolve()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
