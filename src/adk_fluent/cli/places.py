"""Where in the source of a project each agent is made."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from adk_fluent.analysis.facts import analyse
from adk_fluent.cli.target import Target
from adk_fluent.expr.artifacts import A
from adk_fluent.expr.base import Expr
from adk_fluent.expr.transforms import S
from adk_fluent.ir.annotations import TransformSpec
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import FirstMatch
from adk_fluent.ir.frozen import Frozen
from adk_fluent.ir.nodes import TransformNode


@dataclass(frozen=True, slots=True)
class SourceLocation:
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
class _Making:
    """A call that makes something: what it is called, the text around it, and where it is.

    Attributes:
        name: the name, or the pattern of the names that an f-string makes.
        words: the texts and the names of arguments in it and in the methods called on it.
        end: its last line.
    """

    name: str | re.Pattern[str]
    words: frozenset[str]
    place: SourceLocation
    end: int = 0

    def holds(self, functions: Iterable[SourceLocation]) -> bool:
        """True if one of these functions starts in the call."""
        file, first = self.place.file, self.place.line
        return any(one.file == file and first <= one.line <= self.end for one in functions)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the agents of a target are made.

    Attributes:
        whole: the file that the target is in.
        by_name: agent → its place; of several agents of one name, the first one's.
        formatted: the names that an f-string makes, each with the place of the call that it is in.
    """

    whole: SourceLocation
    by_name: Mapping[str, SourceLocation] = field(default_factory=dict[str, SourceLocation])
    formatted: tuple[tuple[re.Pattern[str], SourceLocation], ...] = ()

    def of(self, agent: str) -> SourceLocation:
        """Where an agent is made, by its name in the tree; the target's own file if that is not found."""
        reused = _NUMBER.sub("", agent)
        known = self.by_name.get(agent) or self.by_name.get(reused)
        return known or next((place for name, place in self.formatted if name.fullmatch(agent)), self.whole)


_NUMBER = re.compile(r"_\d+$")


def places_of(target: Target, subject: Expr[Any] | None = None) -> Places:
    """The places of all that is made in files of the target, under a name or as a step that needs none.

    The files are parsed; nothing in them runs.

    Args:
        subject: the tree whose steps they are, which tells those of one name apart.
    """
    home = target.file or target.folder
    if home is None:
        return Places(SourceLocation(""))
    made: dict[str, list[_Making]] = {}
    formatted: list[tuple[re.Pattern[str], SourceLocation]] = []
    files = list(dict.fromkeys(_files(home)))
    for file in files:
        for one in _made_in(file):
            if isinstance(one.name, str):
                made.setdefault(one.name, []).append(one)
            else:
                formatted.append((one.name, one.place))
    found = {name: several[0].place for name, several in made.items()}
    if subject is not None:
        found |= _told_apart(subject, made, frozenset(map(_shown, files)))
    return Places(SourceLocation(_shown(target.file or _main_file(home))), found, tuple(formatted))


def _told_apart(
    subject: Expr[Any], made: Mapping[str, list[_Making]], files: Collection[str]
) -> dict[str, SourceLocation]:
    """The place of each step that shares its name with others, or has none but that of its kind.

    Args:
        files: the files of the target; a step that is made by no call in them is where its function starts.
    """
    found: dict[str, SourceLocation] = {}
    left = {name: list(several) for name, several in made.items()}
    for step in analyse(subject).steps:
        name = step.node.name or step.origin
        known = next((one for one in (step.name, name, _NUMBER.sub("", name)) if one in left), None)
        starts = [place for place in _starts(step.node) if place.file in files]
        if starts and (known is None or _is_function(step.node)):
            found[step.name] = starts[0]
        elif known is not None:
            words = frozenset(_words(step.node))
            candidates = left[known] or made[known]
            here = max(candidates, key=lambda one: (one.holds(starts), len(one.words & words)))
            found[step.name] = here.place
            if len(left[known]) > 1:
                left[known].remove(here)
    return found


def _is_function(node: Node) -> bool:
    """True for a step that is a plain function without a name: no call makes it."""
    return isinstance(node, TransformNode) and not node.name and not isinstance(node.fn, TransformSpec)


def _starts(node: Node) -> Iterator[SourceLocation]:
    """Where the functions start that a node calls."""
    for called in node.calls():
        inner: Any = getattr(called.function, "function", called.function)  # that of a node of ADK's graphs
        while isinstance(inner, functools.partial):
            inner = cast("functools.partial[object]", inner).func
        inner = inspect.unwrap(inner) if callable(inner) else inner
        method = inspect.getattr_static(cast(object, inner), "__call__", None)  # of a callable object
        code = getattr(inner, "__code__", None) or getattr(method, "__code__", None)
        if code is not None:
            yield SourceLocation(_shown(Path(code.co_filename)), code.co_firstlineno)


def _words(node: Node) -> Iterator[str]:
    """The texts that a node holds."""
    for value in (*node.given.values(), *getattr(node, "__dict__", {}).values()):
        if isinstance(value, str):
            yield value
    for test in node.runs.tests if isinstance(node.runs, FirstMatch) else ():
        yield from (text for text in (getattr(test, "value", None),) if isinstance(text, str))
    yield from _texts_in(getattr(node, "fn", None) or getattr(node, "operation", None))


def _texts_in(value: object) -> Iterator[str]:
    """The texts in an operation of S or A, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Frozen | tuple | frozenset):
        parts = cast("Iterable[object]", vars(value).values() if isinstance(value, Frozen) else value)
        for one in parts:
            yield from _texts_in(one)


def _main_file(folder: Path) -> Path:
    names = ("agent.py", "__init__.py", "root_agent.yaml")
    return next((folder / name for name in names if (folder / name).is_file()), folder)


def _files(home: Path) -> Iterator[Path]:
    """The file itself and those that it includes, then what was imported from its folder or below."""
    if home.is_file():
        yield from _with_included(home, {})
    folder = home if home.is_dir() else home.parent
    loaded = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    yield from sorted(path for path in map(Path, loaded) if path.suffix == ".py" and folder in path.parents)
    if home.is_dir():
        yield from sorted(home.glob("*.yaml"))


def _with_included(file: Path, seen: dict[Path, None]) -> Iterator[Path]:
    """A file, and the YAML files that it, or one of them, refers to by `config_path`."""
    if file.resolve() in seen or not file.is_file():
        return
    seen[file.resolve()] = None
    yield file
    if file.suffix in (".yaml", ".yml"):
        for path in _INCLUDED.findall(file.read_text(encoding="utf-8", errors="replace")):
            yield from _with_included(file.parent / path, seen)


_INCLUDED: Final = re.compile(r"""\bconfig_path:\s*["']?([^\s"'#},]+)""")


def _made_in(file: Path) -> Iterator[_Making]:
    """What is made in a file, in order: under a name that is written down, or as a step of some kind."""
    shown = _shown(file)
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix != ".py":
            yield from (
                _Making(name, frozenset(), SourceLocation(shown, line)) for name, line in _in_yaml(text)
            )
            return
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return
    variables = _variables(tree, file)
    around = {
        id(child): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Call)
        for child in [node.value if isinstance(node, ast.Attribute) else node.func]
    }
    held = _held_by_variables(tree, variables)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        kinds = _kinds(node.func, variables)
        name = None if len(kinds) > 1 else _name(node)
        value = _value(name, variables)
        text = value if isinstance(value, str) else held.get(id(node))
        pattern = _pattern(name) if isinstance(name, ast.JoinedStr) else None
        names = [one for one in (pattern, text, *kinds) if one]
        place, end = SourceLocation(shown, node.lineno), node.end_lineno or node.lineno
        for one in dict.fromkeys(names):
            yield _Making(one, frozenset(_texts(node, around)), place, end)


def _variables(tree: ast.Module, file: Path) -> Mapping[str, object]:
    """The variables of a file's module if it is loaded; else its texts, as far as they are written down."""
    paths = {str(file), str(file.resolve())}
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in paths:
            return vars(module)
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _value(expression: ast.expr | None, variables: Mapping[str, object]) -> object:
    """The value of a text, a variable or an attribute such as `config.NAME`; no property is computed."""
    if isinstance(expression, ast.Attribute):
        return getattr(_value(expression.value, variables), "__dict__", {}).get(expression.attr)
    if isinstance(expression, ast.Name):
        return variables.get(expression.id)
    return expression.value if isinstance(expression, ast.Constant) else None


def _held_by_variables(tree: ast.Module, variables: Mapping[str, object]) -> dict[int, str]:
    """The calls whose value a variable of the module holds: the ID of the call → the name of that value."""
    return {
        id(node.value): name
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
        and isinstance(name := getattr(variables.get(target.id), "__dict__", {}).get("name"), str)
    }


def _pattern(name: ast.JoinedStr) -> re.Pattern[str] | None:
    """The names that an f-string with some fixed text can make."""
    fixed = [part.value if isinstance(part, ast.Constant) else None for part in name.values]
    if not any(fixed):
        return None
    return re.compile("".join(r"\w+" if text is None else re.escape(str(text)) for text in fixed))


_KINDS: Final[Mapping[str, str]] = {
    "Route": "route",
    "Loop": "loop",
    "loop_until": "loop",
    "until": "loop",
    "gate": "gate",
    "FanOut": "parallel",
    "race": "race",
    "map_over": "map",
    "tap": "tap",
}
"""What a step is called that has no name, by the function that makes it; those of S and A are in `_kinds`."""


def _kinds(function: ast.expr, variables: Mapping[str, object]) -> tuple[str, ...]:
    """The names that a step made by this function may have if the user gives none."""
    called = getattr(function, "id", getattr(function, "attr", ""))
    if isinstance(function, ast.Attribute):
        owner = function.value
        known = _value(owner, variables)
        if known is S or known is A or (known is None and getattr(owner, "id", "") in ("S", "A")):
            return called, "together"  # the name of operations that `+` joins
    return (_KINDS[called],) if called in _KINDS else ()


def _texts(call: ast.Call, around: Mapping[int, ast.Attribute | ast.Call]) -> Iterator[str]:
    """The texts and the names of arguments in a call, and in the methods that are called on what it gives."""
    outer: ast.AST | None = call
    while outer is not None:
        given = [*outer.args, *(one.value for one in outer.keywords)] if isinstance(outer, ast.Call) else []
        for one in given:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                yield one.value
        if isinstance(outer, ast.Call):
            yield from (one.arg for one in outer.keywords if one.arg)
        outer = around.get(id(outer))


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
