"""TARGET: what a command works on, found by module, file or agent folder."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from adk_fluent.cli.errors import UsageError, one_line
from adk_fluent.expr.base import Expr
from adk_fluent.ir.adk_objects import is_native
from adk_fluent.ir.base import walk
from adk_fluent.ir.nodes import agent_of
from adk_fluent.ir.tools import agents_inside
from adk_fluent.spelling import did_you_mean

DEFAULT_ATTRIBUTES = ("pipeline", "app", "root_agent")
"""What is looked for in a module or file when TARGET names no attribute, in this order."""

FOLDER_ATTRIBUTES = ("app", "root_agent")
"""What ADK looks for in an agent folder, in its order: only an app brings its plugins."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What may be loaded.

    Attributes:
        what: what it is, for messages.
        defaults: the names under which it is looked for where TARGET says none, in this order.
        accepts: whether a value is one.
    """

    what: str
    defaults: tuple[str, ...]
    accepts: Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class Target:
    """What TARGET stands for.

    Attributes:
        value: an expression, or a native agent, workflow or app.
        app_name: the app's name when the value brings none: the folder's or file's, so that sessions kept
            in a file are found again.
        folder: the agent folder, if it is one.
        file: the file that it is in, if that is known.
    """

    value: object
    app_name: str
    folder: Path | None = None
    file: Path | None = None

    @property
    def expression(self) -> Expr[Any] | None:
        """The value if it is an expression."""
        value = cast("Expr[Any] | object", self.value)
        return cast("Expr[Any]", value) if isinstance(value, Expr) else None


def load(text: str, kind: Kind | None = None) -> Target:
    """Find what `text` names: `module:attr`, `path/file.py[:attr]`, or an agent folder.

    Args:
        kind: what it must be; a pipeline by default. Only that may be in an agent folder.

    Raises:
        UsageError: there is no such thing, or importing it failed.
    """
    place, attribute = _split(text)
    wanted = kind or PIPELINE
    if place.endswith(".py"):
        return _from_file(Path(place), attribute, wanted)
    path = Path(place)
    if kind is None and path.suffix in (".yaml", ".yml") and path.is_file():
        return _from_yaml(path.resolve())
    if kind is None and path.is_dir() and (attribute is None or not importable(place)):
        return _from_folder(path.resolve(), attribute)
    if os.sep in place:
        raise UsageError(f"There is no file or folder {place!r}.")
    return _from_module(place, attribute, wanted)


def _split(text: str) -> tuple[str, str | None]:
    place, colon, attribute = text.rpartition(":")
    if not colon or not attribute.replace(".", "_").isidentifier():  # also the colon after a drive letter
        return text, None
    return place, attribute


def importable(name: str) -> bool:
    """Whether Python would find a module of this name."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


# --- the three kinds ------------------------------------------------------------------------------


def _from_module(name: str, attribute: str | None, kind: Kind) -> Target:
    _search_first(Path.cwd())
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(
            f"{name!r} is no TARGET. Give module:attr, path/file.py, path/file.py:attr, or an agent folder."
        )
    if not importable(name):
        near = did_you_mean(name, [path.name for path in Path.cwd().iterdir() if path.name[0] not in "._"])
        raise UsageError(f"There is no module, file or agent folder {name!r}.{near}")
    module = _import(name, name)
    file = getattr(module, "__file__", None)
    found = _pick(module, attribute, name, kind)
    return Target(found, name.split(".")[-1], file=Path(file) if file else None)


def _from_file(path: Path, attribute: str | None, kind: Kind) -> Target:
    if not path.is_file():
        near = did_you_mean(path.name, [p.name for p in path.parent.glob("*.py")])
        raise UsageError(f"There is no file {str(path)!r}.{near}")
    path = path.resolve()
    _search_first(path.parent)
    module = _execute(path)
    return Target(_pick(module, attribute, path.name, kind), path.stem, file=path)


def _from_folder(folder: Path, attribute: str | None) -> Target:
    name = folder.name
    files = [f for f in ("__init__.py", "agent.py", "root_agent.yaml") if (folder / f).is_file()]
    if not files:
        found = [*folder.glob("*/agent.py"), *folder.glob("*/root_agent.yaml")]
        inside = sorted({one.parent.name for one in found})
        raise UsageError(
            f"{str(folder)!r} is no agent folder: it has no agent.py, __init__.py or root_agent.yaml. "
            + (
                f"Give one of those in it: {', '.join(inside)}."
                if inside
                else f"Make one with: adk-fluent new {name}"
            )
        )
    _load_environment(folder)
    if files == ["root_agent.yaml"]:
        return _from_yaml(folder / "root_agent.yaml")
    if "." in name or not name:
        raise UsageError(f"Python cannot import the agent folder {name!r}: rename it to have no dot in it.")
    _search_first(folder.parent)
    modules = [_import(name, str(folder))]
    if not _has(modules[0], attribute) and (folder / "agent.py").is_file():
        modules.append(_import(f"{name}.agent", str(folder / "agent.py")))
    found = next((module for module in modules if _has(module, attribute)), None)
    if found is None and attribute is None and "root_agent.yaml" in files:
        return _from_yaml(folder / "root_agent.yaml")
    found = found or modules[-1]
    kind = replace(PIPELINE, defaults=(*FOLDER_ATTRIBUTES, "pipeline"))
    return Target(_pick(found, attribute, str(folder), kind), name, folder)


def _from_yaml(file: Path) -> Target:
    from adk_fluent.adopt.native_runs import from_yaml

    _search_first(file.parent.parent)
    return Target(from_yaml(file), file.parent.name, file.parent, file)


def _has(module: ModuleType, attribute: str | None) -> bool:
    return any(hasattr(module, name) for name in ([attribute] if attribute else FOLDER_ATTRIBUTES))


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _load_environment(folder: Path) -> None:
    """What ADK's own commands do: the folder's `.env` fills in what the environment leaves open."""
    from dotenv import load_dotenv

    load_dotenv(folder / ".env", override=False)


# --- importing and picking ------------------------------------------------------------------------


def _import(name: str, shown: str) -> ModuleType:
    with _importing(shown):
        return importlib.import_module(name)


@contextmanager
def _importing(shown: str) -> Generator[None]:
    """Tell what goes wrong while a module of the user's runs; what it prints is no output of ours."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SystemExit as leaving:
        where = _own_line(leaving, shown)
        raise UsageError(
            f"{shown} calls sys.exit({'' if leaving.code is None else repr(leaving.code)}) when it is "
            f'imported{where}. Put what it does then below: if __name__ == "__main__":'
        ) from leaving
    except Exception as error:
        raise _cannot_import(shown, error) from error


def module_name(file: Path) -> str:
    """The name under which a file is loaded: its own, but for dots, which would name packages."""
    return file.stem.replace(".", "_")


def _execute(path: Path) -> ModuleType:
    name = module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered under its name, so that classes in it can be found again; never over another file's module.
    if getattr(sys.modules.get(name), "__file__", str(path)) == str(path):
        sys.modules[name] = module
    with _importing(path.name):
        spec.loader.exec_module(module)
    return module


def _cannot_import(shown: str, error: Exception) -> UsageError:
    if isinstance(error, SyntaxError):
        file = Path(error.filename or shown).name
        return UsageError(f"{file}, line {error.lineno}: {error.msg}.")
    where = _own_line(error, shown)
    return UsageError(f"{shown} cannot be imported{where}: {type(error).__name__}: {one_line(_said(error))}")


def _said(error: Exception) -> str | Exception:
    """The message of an error; of what pydantic refuses, each fault without the whole of what was given."""
    faults: Any = getattr(error, "errors", None)
    if not type(error).__module__.startswith("pydantic") or not callable(faults):
        return error
    found = cast("list[dict[str, Any]]", faults())
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ").replace("Value error, ", "")
        for one in found
    )


def _own_line(error: BaseException, shown: str) -> str:
    """The last line of the user's own file that was running."""
    line, step = "", error.__traceback__
    while step is not None:
        file = Path(step.tb_frame.f_code.co_filename)
        if file.name == Path(shown).name or str(file).startswith(shown):
            line = f" ({file.name}, line {step.tb_lineno})"
        step = step.tb_next
    return line


def _pick(module: ModuleType, attribute: str | None, shown: str, kind: Kind) -> object:
    usable = [name for name, value in vars(module).items() if name[0] != "_" and kind.accepts(value)]
    if attribute is None:
        attribute = next((name for name in kind.defaults if name in usable), None)
        if attribute is None and len(usable) == 1:
            attribute = usable[0]
        if attribute is None and usable and kind is PIPELINE:
            attribute = _containing_all({name: getattr(module, name) for name in usable})
        if attribute is None:
            given = next((name for name in kind.defaults if hasattr(module, name)), None)
            if given is None or usable:
                raise UsageError(_unnamed(shown, usable, kind))
            attribute = given  # it is there, and something else
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            known = did_you_mean(part, usable) or (f" It has {', '.join(usable)}." if usable else "")
            raise UsageError(f"{shown} has no {attribute!r}.{known}")
        value = getattr(value, part)
    if not kind.accepts(value):
        awaited = ""
        if inspect.iscoroutine(value):
            value.close()
            awaited = f" Await it where it is made: {attribute} = asyncio.run(...)."
        raise UsageError(
            f"{attribute!r} in {shown} is of type {type(value).__name__}, not an {kind.what}.{awaited}"
        )
    return value


def _unnamed(shown: str, usable: list[str], kind: Kind) -> str:
    if not usable:
        return f"{shown} holds no {kind.what}."
    return f"{shown} holds {', '.join(usable)}; say which one: {shown}:{usable[0]}"


def _containing_all(values: Mapping[str, object]) -> str | None:
    """The name of the one value of which all the others are parts, such as the pipeline of some agents."""
    parts = {name: set(_parts(value)) for name, value in values.items()}
    for name, found in parts.items():
        if all(_is_within(value, found) for value in values.values()):
            return name
    return None


def _parts(value: object) -> Iterator[object]:
    """The nodes of an expression; of an ADK object itself and all agents in it; and the names of agents."""
    if isinstance(value, Expr):
        for node in walk(cast("Expr[Any]", value)):
            yield node
            if (agent := agent_of(node)) is not None:
                yield node.name
                for body in agents_inside(agent.tools):
                    yield from (part for inner in walk(body) for part in (inner, inner.name))
        return
    yield id(value)
    app = [] if hasattr(value, "sub_agents") else [getattr(value, "root_agent", None)]
    agents: list[object] = [*app, *getattr(value, "sub_agents", ())]
    agents += [getattr(tool, "agent", None) for tool in getattr(value, "tools", ())]
    for agent in agents:
        if agent is not None:
            yield from _parts(agent)


def _is_within(value: object, parts: set[object]) -> bool:
    if not isinstance(value, Expr):
        return id(value) in parts
    root = cast("Expr[Any]", value).node
    if root in parts or (agent_of(root) is not None and root.name in parts):
        return True
    children = root.children  # what stands in a row with others is a part of that row
    return bool(children) and all(
        node in parts or (agent_of(node) is not None and node.name in parts) for node in children
    )


def _is_target(value: object) -> bool:
    if isinstance(value, Expr):
        return True
    return is_native(value)


PIPELINE: Final = Kind("expression, ADK agent or App", DEFAULT_ATTRIBUTES, _is_target)
"""What most commands work on."""
