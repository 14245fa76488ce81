"""Values as source: what is written down, and what is imported from where it is."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from keyword import iskeyword
from math import isfinite
from pathlib import Path
from types import FunctionType, GenericAlias, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel

from adk_fluent.adopt.operations import OPERATIONS
from adk_fluent.adopt.writing import Unwritable, Writing, named, text
from adk_fluent.ir.adk_objects import configured, object_path
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.ir.functions import import_path
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.tools.sources import Credential


def written(value: Any, writing: Writing) -> str:
    """A value as source.

    Raises:
        Unwritable: it is nothing that can be written down, and has no name that could be imported.
    """
    for kind, write in (
        *_WRITERS,
        (object, _type),
        (object, _imported),
        (object, _of_configuration),
        (object, _record),
    ):
        with suppress(Unwritable):  # of what holds something unwritable, there may still be a name
            if isinstance(value, kind) and (found := write(value, writing)) is not None:
                return found
    raise Unwritable


def _imported(value: Any, writing: Writing) -> str | None:
    path = import_path(value) if callable(value) else None
    path = path or _of_adk(value) or object_path(value)
    return None if path is None or "<" in path else writing.names.ref(path)


def _of_configuration(value: Any, writing: Writing) -> str | None:
    """A tool that a `root_agent.yaml` makes with arguments, made as ADK makes it."""
    if (made := configured(value)) is None:
        return None
    holder = writing.names.ref("google.adk.tools.tool_configs:ToolArgsConfig")
    args = f"{holder}({_arguments(made.args, writing)})"
    maker = writing.names.ref(made.path)
    if not made.is_class:
        return f"{maker}({args if made.args else ''}){made.part}"
    file = Path(made.file)
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return f"{maker}.from_config({args}, {text(shown.as_posix())}){made.part}"


def _arguments(args: Mapping[str, Any], writing: Writing) -> str:
    held = [(name, writing.value(value)) for name, value in args.items()]
    if all(name.isidentifier() and not iskeyword(name) for name in args):
        return ", ".join(named(held))
    return f"**{{{', '.join(f'{text(name)}: {shown}' for name, shown in held)}}}"


def _plain(value: Any, writing: Writing) -> str | None:
    if type(value) is str:
        return text(value)
    if type(value) is float and not isfinite(value):
        return f'float("{value}")'
    return repr(value) if value is None or type(value) in (bool, int, float, bytes) else None


def _list(value: Any, writing: Writing) -> str | None:
    items = [writing.value(item) for item in value]
    if type(value) is list:
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' * (len(items) == 1)})" if type(value) is tuple else None


def _set(value: Any, writing: Writing) -> str:
    inner = ", ".join(sorted(writing.value(item) for item in value))
    shown = f"{{{inner}}}" if inner else "set()"
    return f"frozenset({shown if inner else ''})" if isinstance(value, frozenset) else shown


def _dict(value: Any, writing: Writing) -> str | None:
    if type(value) is not dict:
        return None
    held = cast("dict[Any, Any]", value).items()
    return f"{{{', '.join(f'{writing.value(key)}: {writing.value(one)}' for key, one in held)}}}"


def _enum(value: Enum, writing: Writing) -> str | None:
    path = import_path(type(value))
    if path is not None and path.startswith("google.genai.types:"):
        return f"{writing.names.use('google.genai', 'types')}.{type(value).__name__}.{value.name}"
    return None if path is None else f"{writing.names.ref(path)}.{value.name}"


def _field(value: Any, writing: Writing) -> str | None:
    if value.schema is None or getattr(value.schema, value.name, None) != value:
        return None
    path = import_path(value.schema)
    return None if path is None else f"{writing.names.ref(path)}.{value.name}"


def _model(value: BaseModel, writing: Writing) -> str | None:
    """A pydantic model that is data: one of genai's types, or one of the user's without private state."""
    cls: type[BaseModel] = type(value)
    path = import_path(cls)
    of_genai = cls.__module__ == "google.genai.types"
    own = not cls.__module__.startswith("google.") and not getattr(cls, "__private_attributes__", None)
    if path is None or not (of_genai or own) or object_path(value) is not None:
        return None
    held = [
        (name, writing.value(getattr(value, name)))
        for name in cls.model_fields
        if name in value.model_fields_set
    ]
    name = (
        f"{writing.names.use('google.genai', 'types')}.{cls.__name__}"
        if of_genai
        else writing.names.ref(path)
    )
    return f"{name}({', '.join(named(held))})"


def _path(value: Any, writing: Writing) -> str:
    return f"{writing.names.use('pathlib', 'Path')}({text(str(value))})"


def _pattern(value: Any, writing: Writing) -> str:
    compiled = f"{writing.names.use('re', 'compile')}({text(value.pattern)}"
    return f"{compiled})" if re.compile(value.pattern) == value else f"{compiled}, {value.flags})"


def _type(value: Any, writing: Writing) -> str | None:
    """A type: a class by import, or one made of others, such as `list[Invoice]`."""
    if value is type(None):
        return "None"
    arguments = get_args(value)
    if isinstance(value, UnionType) or get_origin(value) is Union:
        return " | ".join(writing.value(one) for one in arguments)
    if isinstance(value, GenericAlias) or (arguments and get_origin(value) is not None):
        inner = ", ".join("..." if one is ... else writing.value(one) for one in arguments)
        return f"{writing.value(get_origin(value))}[{inner}]"
    return None


def _of_adk(value: object) -> str | None:
    """A tool of ADK's own, such as `google_search`, from ADK's package, wherever else it was imported."""
    name = str(getattr(value, "name", ""))
    tools = sys.modules.get("google.adk.tools")
    same = type(value).__module__.startswith("google.adk.") and getattr(tools, name, None) is value
    return f"google.adk.tools:{name}" if name.isidentifier() and same else None


def _record(value: Any, writing: Writing) -> str | None:
    """A dataclass by the fields that differ from their defaults; secrets do not belong into source."""
    path = None if isinstance(value, AuthConfig | Credential) else import_path(cast(object, type(value)))
    if path is None or not is_dataclass(value) or isinstance(value, type):
        return None
    held = [
        (field.name, writing.value(getattr(value, field.name)))
        for field in fields(value)
        if field.init and not _is_default(field, getattr(value, field.name))
    ]
    return f"{writing.names.ref(path)}({', '.join(named(held))})"


def _is_default(field: Any, value: object) -> bool:
    return type(field.default) is type(value) and bool(field.default == value)


def _lambda(value: Any, writing: Writing) -> str | None:
    """A lambda as it stands in its file, if it holds nothing and is the only such one there."""
    if not writing.copies or value.__name__ != "<lambda>":
        return None
    if value.__closure__ or value.__defaults__ or value.__kwdefaults__:
        return None
    code = value.__code__
    there = [
        shown
        for shown in _lambdas(code.co_filename).get(code.co_firstlineno, ())
        if _code(shown) == (code.co_code, code.co_consts, code.co_names, code.co_varnames)
    ]
    if len(set(there)) != 1:
        return None
    for name in code.co_names:
        if name in value.__globals__:
            held = value.__globals__[name]
            path = import_path(held) if callable(held) else None
            if path is None or not path.endswith(f":{name}"):
                path = f"{value.__module__}:{name}"
            if inspect.ismodule(held) or writing.names.ref(path) != name:
                return None
    return there[0]


@cache
def _lambdas(file: str) -> Mapping[int, list[str]]:
    """The lambdas of a file, by the line on which they begin."""
    import linecache

    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(ast.unparse(node))
    return found


def _code(shown: str) -> tuple[object, ...]:
    made = cast(FunctionType, eval(shown, {})).__code__  # made and not called
    return (made.co_code, made.co_consts, made.co_names, made.co_varnames)


_WRITERS: Final[tuple[tuple[Any, Callable[[Any, Writing], str | None]], ...]] = (
    ((str, int, float, bytes, type(None)), _plain),
    ((list, tuple), _list),
    ((set, frozenset), _set),
    (dict, _dict),
    (Enum, _enum),
    (StateFieldRef, _field),
    *OPERATIONS,
    (BaseModel, _model),
    (Path, _path),
    (re.Pattern, _pattern),
    (FunctionType, _lambda),
)
"""Kinds of values, each with how it is written; `None` where it is not."""
