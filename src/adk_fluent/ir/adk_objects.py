"""`Native`: an object of ADK's that a node holds, compared by identity."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from adk_fluent.ir.frozen import Frozen, frozen

_RUNNABLE: Final = frozenset({"BaseAgent", "BaseNode", "App"})


@frozen
class Native(Frozen):
    """An agent, workflow or app of ADK's. Two are equal if they are the same object."""

    value: Any

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(getattr(self.value, "name", "native"))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the agents in it."""
        return tuple(inner.name for inner in _below(self.value) if inner is not self.value)

    @property
    def asks(self) -> bool:
        """True if the code of a function in it asks for input (`RequestInput`)."""
        functions = (getattr(part, "_func", None) for part in _below(self.value))
        codes = (getattr(each, "__code__", None) for each in functions)
        return any(code and "RequestInput" in (*code.co_names, *code.co_freevars) for code in codes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Native) and self.value is other.value

    def __hash__(self) -> int:
        return hash(id(self.value))

    def __repr__(self) -> str:
        return f"<{type(self.value).__name__} {self.name!r}>"


def _below(agent: Any) -> Iterator[Any]:
    seen, pending = set[int](), [agent]
    while pending:
        current = pending.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            pending.extend(getattr(current, "sub_agents", ()))
            pending.extend(getattr(getattr(current, "graph", None), "nodes", ()))


def is_native(value: object) -> bool:
    """True for an object that ADK can run: an agent, a workflow, a node of one, or an `App`.

    The check does not import ADK, because an object of ADK's exists only after that import.
    """
    if isinstance(value, type) or "google.adk" not in sys.modules:
        return False
    return any(
        cls.__name__ in _RUNNABLE and cls.__module__.startswith("google.adk.") for cls in type(value).__mro__
    )


def is_model(value: object) -> bool:
    """True for the name of a model, or a `BaseLlm`.

    >>> is_model("gemini-2.5-flash"), is_model(""), is_model(5)
    (True, False, False)
    """
    if isinstance(value, str):
        return bool(value.strip())
    return hasattr(value, "generate_content_async") and not isinstance(value, type)


def object_path(value: object) -> str | None:
    """The path `module:name` of an object in an imported module of the user, or `None`."""
    found: list[str] = []
    for name, module in list(sys.modules.items()):
        if isinstance(cast(object, module), ModuleType) and not name.startswith(("pydantic", "adk_fluent")):
            for attribute, held in list(vars(module).items()):
                if held is value and attribute.isidentifier():
                    found.append(f"{name}:{attribute}")
    return min(
        found, key=lambda path: (path.startswith(("__main__", "google.")), len(path), path), default=None
    )


@dataclass(frozen=True, slots=True)
class Configured:
    """The entry of a `root_agent.yaml` that makes a tool: a Python class or function, and arguments.

    Attributes:
        path: `module:name` of the class or function.
        is_class: True if it is a class of ADK's tools, which ADK makes with `from_config`.
        args: the arguments.
        file: the YAML file.
        part: empty for the tool itself, `.func` for its function.
    """

    path: str
    is_class: bool
    args: Mapping[str, Any]
    file: str
    part: str = ""


_configured: Final[WeakKeyDictionary[Any, Configured]] = WeakKeyDictionary()


def note_configured(tool: object, made: Configured) -> None:
    """Remember the configuration entry that made a tool, for the tool and for its function."""
    for value, part in ((tool, ""), (getattr(tool, "func", None), ".func")):
        if value is not None and object_path(value) is None:
            with suppress(TypeError):  # an object without a hash; it counts like any other tool
                _configured[value] = replace(made, part=part)


def configured(value: object) -> Configured | None:
    """The configuration entry that made a tool, or the tool of a function, or `None`."""
    try:
        return _configured.get(value)
    except TypeError:
        return None


def object_at(path: str) -> object | None:
    """The object at a path `module:name`, if that module is imported; else `None`."""
    module, _, name = path.partition(":")
    held = sys.modules.get(module)
    return cast("object | None", vars(held).get(name)) if isinstance(held, ModuleType) else None
