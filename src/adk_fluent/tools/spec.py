"""`Tool`: a tool, or several, as a frozen value.

Every operation of `T` is one subclass of `Tool`. It declares the name of the tool, the state keys that its
calls read and write, whether it asks a person, and how it is stored and shown. The subclasses are in
`sources` and `wrappers`. The backend (`backends/adk/tools`) makes ADK's tools of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from inspect import isabstract, signature
from types import FunctionType
from typing import Any, ClassVar, Final, Literal, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name
from adk_fluent.ir.keys import ANY_FILE, ArtifactUse
from adk_fluent.ir.tools import ToolSpec, confirms, tool_access


@frozen
class Tool(ToolSpec):
    """A tool, or several; the factories of `T` make it.

    `a | b` gives an agent both. One side may also be a function, or a tool or toolset of ADK's.

    Example:
        >>> from adk_fluent import T
        >>> def weather(city: str) -> str:
        ...     return "sunny"
        >>> T.google_search() | T.timeout(weather, 5)
        T.google_search() | T.timeout(weather, seconds=5)
    """

    op: ClassVar[str] = ""
    """The name of its factory in `T`; stored graphs hold it."""
    leading: ClassVar[int] = 1
    """The number of parameters that its `repr` shows without their names."""

    @property
    def params(self) -> tuple[tuple[str, Any], ...]:
        """Its parameters, as pairs of name and value."""
        return tuple((name, getattr(self, name)) for name in self._defaults)

    @property
    def label(self) -> str:
        """Its label in lists of tools."""
        return self.called or repr(self).removeprefix("T.")

    @property
    def each(self) -> tuple[object, ...]:
        """The single tools that it holds."""
        return (self,)

    # --- how it is made and written down -----------------------------------------------------------

    def __or__(self, other: object) -> ToolGroup:
        return together(self, other)

    def __ror__(self, other: object) -> ToolGroup:
        return together(other, self)

    def __repr__(self) -> str:
        shown: list[str] = []
        for index, (name, value) in enumerate(self.params):
            if index < self.leading or value != self._defaults[name]:
                shown.append(short(value) if index < self.leading else f"{name}={short(value)}")
        return f"T.{self.op}({', '.join(shown)})"

    def as_stored(self) -> Frozen:
        """The stored form: the name of the operation and the parameters that were given."""
        return Stored(self.op, tuple((name, value) for name, value in self.params if name in self.given))

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Frozen:
        """Restore an operation from its stored form.

        Raises:
            ValueError: `T` has no operation of that name.
        """
        held = Stored(**values)
        made = {each.op: each for each in operations(Tool)}.get(held.op)
        if made is None:
            raise ValueError(f"there is no tool operation {held.op!r}")
        return made(**dict(held.params))


def operations(cls: type[Tool]) -> Iterator[type[Tool]]:
    """All subclasses of a class, at any depth, that are operations: those with a name in `op`."""
    for inner in cls.__subclasses__():
        if inner.op:
            yield inner
        yield from operations(inner)


@frozen
class Stored(Frozen):
    """The stored form of a tool: the name of its operation, and its parameters."""

    stored_as: ClassVar[type | None] = Tool

    op: str
    params: tuple[tuple[str, Any], ...] = ()


@frozen
class ToolGroup(Tool):
    """Several tools as one value, as `a | b` makes it."""

    op: ClassVar[str] = "together"

    parts: tuple[object, ...]

    @property
    def access(self) -> Access:
        total = NO_ACCESS
        for part in self.parts:
            total |= tool_access(part)
        return total

    @property
    def asks(self) -> bool:
        return any(map(confirms, self.parts))

    @property
    def held(self) -> tuple[object, ...]:
        return self.parts

    @property
    def each(self) -> tuple[object, ...]:
        return self.parts

    def __repr__(self) -> str:
        return " | ".join(short(part) for part in self.parts)


@frozen
class ArtifactTool(Frozen):
    """A tool with which a model saves, loads or lists artifacts; the factories of `A.tool` make it.

    Attributes:
        kind: `save`, `load` or `list`.
    """

    kind: Literal["save", "load", "list"]

    def __or__(self, other: object) -> ToolGroup:
        return together(self, other)

    def __ror__(self, other: object) -> ToolGroup:
        return together(other, self)

    @property
    def name(self) -> str:
        """The name that the model sees."""
        return _ARTIFACT_TOOLS[self.kind]

    @property
    def access(self) -> Access:
        """The state keys that its calls read and write: none."""
        return NO_ACCESS

    @property
    def artifact_uses(self) -> tuple[ArtifactUse, ...]:
        """The possible uses of artifacts: of any artifact, because the model chooses the name."""
        if self.kind == "save":
            return (ArtifactUse("saves", ANY_FILE, certain=False),)
        return (ArtifactUse("reads", ANY_FILE, "optional", certain=False),) if self.kind == "load" else ()


_ARTIFACT_TOOLS: Final = {"save": "save_artifact", "load": "load_artifacts", "list": "list_artifacts"}
"""The kind of an `ArtifactTool` → the name that the model sees."""


def together(*tools: object) -> ToolGroup:
    """Join tools into one value; a value of several tools adds each of them."""
    return ToolGroup(tuple(part for tool in tools for part in each(checked(tool))))


def each(tool: object) -> tuple[object, ...]:
    """The single tools of a value: those that `a | b` joined, or the tool itself."""
    return tool.each if isinstance(tool, Tool) else (tool,)


def checked(tool: object) -> object:
    """Return `tool` unchanged if an agent can have it.

    Raises:
        ArgumentError: it is not a tool; the message says what to write instead.
    """
    if isinstance(tool, Tool):
        return tool
    if isinstance(getattr(tool, "node", None), Frozen):
        raise ArgumentError(
            f"{tool!r} is an expression, not a tool. Use T.agent(...) to have it called like a function, or "
            ".delegate(...) to hand the conversation over to it."
        )
    named = hasattr(tool, "name") or hasattr(tool, "get_tools")
    fits = makes_values(cast(type[object], tool)) if isinstance(tool, type) else callable(tool) or named
    if not fits or _wrapper(tool):
        kind = f"{type(tool).__name__} {getattr(tool, 'name', tool)!r:.40}"
        if isinstance(tool, type):
            kind = f"the class {tool.__name__}"
        instead = _wrapper(tool) or object_of(tool) or unpacked(tool)
        raise ArgumentError(f"A tool is a function, a T tool or an ADK tool, not {kind}.{instead}")
    return tool


_WRAPPERS: Final[Mapping[str, str]] = {"langchain": "LangchainTool", "crewai": "CrewaiTool"}
"""The prefix of another framework's packages → ADK's class that wraps a tool of that framework."""


def _wrapper(tool: object) -> str:
    """A hint for a tool of another framework, as a sentence for a message; empty for any other tool."""
    if isinstance(tool, type) or hasattr(tool, "run_async") or not hasattr(tool, "name"):
        return ""
    bases = [base.__module__ for base in type(tool).__mro__]
    found = [each for name, each in _WRAPPERS.items() if any(base.startswith(name) for base in bases)]
    return "".join(f" Wrap it in ADK's {each}(...)." for each in found)


def makes_values(cls: type[object]) -> bool:
    """True if a class can be a tool itself, because a call of it makes a result.

    An agent takes objects of a class of tools or of callables, not the class.
    """
    is_other = cls.__module__ == "builtins" or _is_of_tools(cls) or _has_calls(cls)
    return not is_other and _is_of_values(cls) and _shows_parameters(cls)


def _is_of_tools(cls: type[object]) -> bool:
    return issubclass(cls, Tool) or hasattr(cls, "run_async") or hasattr(cls, "get_tools")


def _is_of_values(cls: type[object]) -> bool:
    """True if the objects of a class can be results, because they become JSON.

    An object with attributes alone does not. If a class defines `__new__` or has a metaclass with `__call__`,
    its calls may return anything, so it counts.
    """
    if isabstract(cls) or getattr(cls, "_is_protocol", False):
        return False
    holds = is_dataclass(cls) or hasattr(cls, "__pydantic_serializer__")
    makes = cls.__new__ is not object.__new__ or type(cls).__call__ is not type.__call__
    return holds or makes or cls.__module__.partition(".")[0] in sys.stdlib_module_names


def _shows_parameters(cls: type[object]) -> bool:
    """True if Python knows the parameters of a class. It does not for a subclass of `dict` or a TypedDict."""
    try:
        signature(cls)
    except ValueError:
        return False
    return True


def _has_calls(cls: type[object]) -> bool:
    """True if the objects of a class can be called."""
    return any("__call__" in vars(base) for base in cls.__mro__)


def object_of(value: object) -> str:
    """A hint for a class that cannot be a tool, as a sentence for a message; empty for anything else.

    >>> class Weather:
    ...     def __call__(self, city: str) -> str:
    ...         return "sunny"
    >>> object_of(Weather), object_of(int)
    (' Give an object of it: Weather().', '')
    """
    if not isinstance(value, type) or value.__module__ == "builtins":
        return ""
    if _is_of_tools(value):
        return f" Give an object of it: {value.__name__}(...)."
    if _has_calls(value):
        return f" Give an object of it: {value.__name__}()."
    if _is_of_values(value):
        why = " Its parameters cannot be read. Give a function, or make it a dataclass."
        return "" if _shows_parameters(value) else why
    public = (name for name, each in vars(value).items() if name[0] != "_" and isinstance(each, FunctionType))
    method = next((f"its method, {value.__name__}(...).{name}" for name in public), "a function")
    return f" A model cannot receive an object of it. Give {method}, or make it a dataclass."


def unpacked(tool: object) -> str:
    """A hint for a list of tools, as a sentence for a message; empty for anything else."""
    items = tuple(cast("Iterable[object]", tool)) if isinstance(tool, list | tuple) else ()
    if not items or not all(callable(item) or hasattr(item, "name") for item in items):
        return ""
    return f" Unpack the list: .tools(*[{', '.join(map(short, items))}])."


def short(value: object) -> str:
    """The `repr` of a parameter: a function by its name, an object of an unknown class by that class."""
    if isinstance(value, Tool):
        return repr(value)
    if callable(value):
        return function_name(value, "<lambda>")
    plain = value is None or isinstance(value, str | int | float | tuple | list | dict)
    return f"{cast(object, value)!r:.60}" if plain else type(cast(object, value)).__name__
