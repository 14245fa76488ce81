"""The version of an expression's code, which tells workers with older code from those with newer code.

Equal code has equal versions in every process, and on every patch release of one Python version.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from sysconfig import get_paths
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast, get_args

from adk_fluent.ir.base import Node
from adk_fluent.ir.codec import ir_hash

LIBRARIES: Final = ("adk-fluent", "google-adk", "google-genai")
"""The packages whose versions count: they decide how a run goes on."""

_OURS: Final = frozenset({"adk_fluent", "google", "builtins", *sys.stdlib_module_names}) - {"__main__"}


def version_of(root: Node) -> str:
    """The version of an expression: its tree, the code that it calls, and the libraries that run it.

    Byte code, parameters, defaults, annotations and closures count, of each function, method and class in the
    tree, and of the functions and classes of the user that they name. So do the versions of Python (3.11, not
    3.11.2) and of `LIBRARIES`. Comments, places in files, values of global variables and of class attributes,
    objects that code names, and other libraries do not count.
    """
    code = _Code(_packages(root))
    code.add(root)
    told = [ir_hash(root), _running(), *sorted(code.found)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


@cache
def _running() -> str:
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{python} {' '.join(version(name) for name in LIBRARIES)}"


def _packages(root: Node) -> frozenset[str]:
    """The packages of the functions and classes in the tree itself: helpers in them are the user's too."""
    code = _Code(frozenset(), deep=False)
    code.add(root)
    return frozenset(code.packages - _OURS)


class _Code:
    """Gathers the code that values lead to.

    Args:
        packages: the packages whose functions and classes count wherever code names them.
        deep: whether to follow what code names.

    Attributes:
        found: a line for each function and class.
        packages: the packages of those that were found.
    """

    def __init__(self, packages: frozenset[str], *, deep: bool = True) -> None:
        self._theirs, self._deep = packages, deep
        self._seen: dict[int, object] = {}
        self.found: set[str] = set()
        self.packages: set[str] = set()

    def add(self, value: object) -> None:
        """Take what a value leads to."""
        pending = [value]
        while pending:
            part = pending.pop()
            if part is None or isinstance(part, str | bytes | int | float) or id(part) in self._seen:
                continue
            self._seen[id(part)] = part
            pending += self._in(part)

    def _in(self, part: object) -> Iterable[object]:
        match part:
            case FunctionType():
                return self._in_function(part)
            case MethodType():
                return [part.__func__, type(part.__self__)]
            case partial():
                call = cast("partial[object]", part)
                return [call.func, *call.args, *call.keywords.values()]
            case staticmethod() | classmethod():
                return [cast(Any, part).__func__]
            case property():
                return [part.fget, part.fset]
            case type():
                return self._in_class(part)
            case dict():
                return cast("dict[object, object]", part).values()
            case list() | tuple() | set() | frozenset():
                return cast("Iterable[object]", part)
            case _:
                return [type(part), *get_args(part), *_held(part)]

    def _in_function(self, function: FunctionType) -> list[object]:
        self.packages.add(str(function.__module__).partition(".")[0])
        if self._is_library(str(function.__module__)):
            return []
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        closed = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
        kinds = function.__annotations__
        plain = [_plain(value) for value in (*defaults, *closed)]
        told = (
            f"{function.__qualname__} {_text(function.__code__)} {plain} {sorted(map(_plain, kinds.items()))}"
        )
        self.found.add(hashlib.sha256(told.encode()).hexdigest())
        named: Iterable[object] = self._named(function) if self._deep else []
        return [*defaults, *closed, *kinds.values(), *named]

    def _in_class(self, cls: type) -> list[object]:
        self.packages.add(cls.__module__.partition(".")[0])
        if self._is_library(cls.__module__):
            return []
        kinds: dict[str, object] = vars(cls).get("__annotations__", {})
        told = f"{cls.__qualname__} {sorted(map(_plain, kinds.items()))}"
        self.found.add(hashlib.sha256(told.encode()).hexdigest())
        bases = [base for base in cls.__bases__ if self._is_theirs(base.__module__)]
        code = (FunctionType, staticmethod, classmethod, property)
        return [*bases, *kinds.values(), *(value for value in vars(cls).values() if isinstance(value, code))]

    def _is_library(self, module: str) -> bool:
        return module.partition(".")[0] in _OURS

    def _named(self, function: FunctionType) -> Iterator[object]:
        """The functions and classes of the user that code names, by themselves or through a module."""
        names = list(_names(function.__code__))
        given = [function.__globals__.get(name) for name in names]
        modules = [value for value in given if isinstance(value, ModuleType)]
        through = [
            vars(each).get(name) for each in modules if self._is_theirs(each.__name__) for name in names
        ]
        for value in (*given, *through):
            wrapped = [value] if isinstance(value, FunctionType | type) else _held(value)  # functools.cache
            for each in wrapped:
                if isinstance(each, FunctionType | type) and self._is_theirs(str(each.__module__)):
                    yield each

    def _is_theirs(self, module: str) -> bool:
        """Whether a module is the user's: in a package of the tree, or not installed."""
        package = module.partition(".")[0]
        if package in _OURS:
            return False
        file = getattr(sys.modules.get(module), "__file__", None)
        return package in self._theirs or file is None or not _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    places = {Path(get_paths()[name]) for name in ("stdlib", "purelib", "platlib")}
    return any(Path(file).is_relative_to(place) for place in places)


def _held(part: object) -> list[object]:
    """What an object holds: all of one of ours, the fields of one of ADK's, else functions alone."""
    module = type(part).__module__
    slots = [name for cls in type(part).__mro__ for name in vars(cls).get("__slots__", ())]
    held = {name: getattr(part, name, None) for name in slots} if module.startswith("adk_fluent.") else {}
    with suppress(TypeError):
        held.update(vars(part))
    if module.startswith("google.adk."):
        return [value for name, value in held.items() if not name.startswith("_")]
    if module.startswith("adk_fluent."):
        return [value for name, value in held.items() if not name.startswith("_adk_fluent")]
    return [value for value in held.values() if isinstance(value, FunctionType | MethodType)]


def parts_of(data: Mapping[str, Any]) -> dict[str, str]:
    """A short hash of each part of what a step is given, by its place; a dict is taken apart once more."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        inner = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        flat |= {f"{name}.{key}": each for key, each in inner.items()} or {name: value}
    told = {name: json.dumps(value, sort_keys=True, default=repr) for name, value in flat.items()}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in told.items()}


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text(value: object) -> str:
    """Byte code with its constants, with no addresses, places or order of a set."""
    match value:
        case CodeType():
            takes = value.co_varnames[: value.co_argcount + value.co_kwonlyargcount]
            constants = [_text(item) for item in value.co_consts]
            table = value.co_exceptiontable.hex()
            return f"{value.co_code.hex()} {value.co_flags} {takes} {value.co_names} {table} {constants}"
        case tuple():
            return str([_text(item) for item in cast("tuple[object, ...]", value)])
        case frozenset():
            return str(sorted(_text(item) for item in cast("frozenset[object]", value)))
        case _:
            return repr(value)


def _plain(value: object) -> str:
    """A plain value as it is, and any other by its name or type."""
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return str([_plain(item) for item in cast("list[object]", value)])
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__qualname__
