"""Messages for a value that does not match its type, in one line: `lines[1].total is missing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin


def shown(kind: object) -> str:
    """The name of a type in messages.

    >>> shown(dict[str, int] | None)
    'dict[str, int] | None'
    """
    if kind is None or kind is type(None):
        return "None"
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return shown(args[0])
    if origin in (Union, UnionType):
        return " | ".join(map(shown, args))
    if isinstance(origin, type) and args:
        return f"{origin.__name__}[{', '.join('...' if arg is ... else shown(arg) for arg in args)}]"
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def fault(error: ValueError, given: object) -> str:
    """Describe an error of pydantic or `json`: the path to the first fault, and the number of other faults.

    For a union it describes the first fault for each member.

    Args:
        error: the error that pydantic or `json` raised.
        given: the checked value, as JSON types. In a path, pydantic puts the names of a union's members
            between the steps; the value shows which are steps.
    """
    problems = getattr(error, "errors", None)
    if problems is None:
        not_json = "it is not JSON: " if isinstance(error, JSONDecodeError) else ""
        return not_json + str(error).rstrip(".")
    listed = cast("list[dict[str, Any]]", problems(include_url=False))
    faults = [_Fault.of(problem, given) for problem in listed]
    if not faults[0].members:
        more = len(faults) - 1
        return faults[0].text + (f" (and {more} more)" if more else "")
    members: dict[str, str] = {}
    for found in faults:
        if found.union == faults[0].union and found.members:
            members.setdefault(found.members[0], found.text)
    texts = [f"as {member}, {what}" for member, what in members.items()]
    return "; ".join(texts[:_MOST]) + ("; ..." if len(texts) > _MOST else "")


_MOST: Final = 4
"""The most members of a union that a message describes."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """One fault of a value.

    Attributes:
        text: its description, with the path to it.
        members: the members of unions on the path.
        union: the path to the first of these unions.
    """

    text: str
    members: tuple[str, ...]
    union: str

    @classmethod
    def of(cls, problem: Mapping[str, Any], given: object) -> _Fault:
        """Describe one fault that pydantic reports."""
        loc: Sequence[int | str] = problem["loc"]
        path, union, members = "", "", list[str]()
        for index, step in enumerate(loc):
            absent = problem["type"] == "missing" and index == len(loc) - 1
            if isinstance(given, Mapping) and (step in given or absent):
                path += f".{step}" if str(step).isidentifier() else f"[{step!r}]"
                given = cast("Mapping[Any, object]", given).get(step)
            elif isinstance(given, list | tuple) and isinstance(step, int):
                path += f"[{step}]"
                items = cast("Sequence[object]", given)
                given = items[step] if step < len(items) else None
            elif step == "[key]":
                path += " (the key)"
            else:
                union = union if members else path
                members.append(str(step))
        return cls(_said(problem, path.removeprefix(".")), tuple(members), union)


def _said(problem: Mapping[str, Any], path: str) -> str:
    """The description of one fault at a path."""
    kind, message = problem["type"], str(problem["msg"]).rstrip(".")
    if kind == "missing":
        return f"{path} is missing"
    if kind == "json_invalid":
        return f"it is not JSON: {message.removeprefix('Invalid JSON: ')}"
    if kind == "extra_forbidden":
        return f"{path} is not one of its fields"
    is_ = f"{path or 'it'} is {problem['input']!r:.40}"
    what, sep, rule = message.partition(" should ")
    if sep and what in ("Input", "Value"):
        return f"{is_} but should {rule}" if path else f"it should {rule}"
    return f"{is_}: {message}" if path else message
