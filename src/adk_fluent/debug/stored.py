"""Recordings as JSON, and files of them; reading one runs nothing."""

from __future__ import annotations

import json
import os
import re
import reprlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from adk_fluent.backends.events import AgentEvent
from adk_fluent.debug.events import event_from
from adk_fluent.debug.requests import plain
from adk_fluent.debug.values import Chunk, Failure, SavedArtifact
from adk_fluent.errors import RecordingError, on_one_line

FORMAT: Final = "adk-fluent recording"
MAJOR: Final = 1
MINOR: Final = 5

Json = dict[str, Any]
V = TypeVar("V")

_UNSAID: Final[tuple[object, ...]] = (None, False, "", [], {})
"""What a field of an event is without being said; 0 counts as `False`."""


# --- out ------------------------------------------------------------------------------------------


def document_of(recording: Any) -> str:
    """The text of a file; the layout is stable, and `version` says which it is."""
    made = {"format": FORMAT, "version": f"{MAJOR}.{MINOR}", **_document_data(recording)}
    text = json.dumps(made, ensure_ascii=False, indent=1, default=plain)
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_LONE: Final = re.compile("[\ud800-\udfff]")
"""Halves of a character, which UTF-8 has no form for."""


def _document_data(recording: Any) -> Json:
    made: Json = {}
    for each in fields(recording):
        value = getattr(recording, each.name)
        if value is None:
            continue
        made[each.name] = [_data(item) for item in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]  # of many types
    return made


SAID: Final = ("runs", "steps", "llm_interactions", "tool_interactions", "spans")
"""The parts of a recording that hold what was said and known."""


def redacted_copy(recording: V, redacted: Callable[[Any], Any]) -> V:
    """The same recording, with what was said and known as `redacted` gives it."""
    data = _document_data(recording)
    return _made(type(recording), data | {part: redacted(data[part]) for part in SAID})


def _data(value: Any) -> Json:
    """A value as JSON, without what is as it is by default."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, AgentEvent):
        return {name: held for name, held in value.to_dict().items() if held not in _UNSAID}
    return {
        each.name: _inner(held)
        for each in fields(value)
        if not _is_default(held := getattr(value, each.name), each)
    }


def _is_default(value: Any, of: Field[Any]) -> bool:
    return value == of.default or (of.default is MISSING and value == {})


def _inner(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_inner(item) for item in cast("tuple[Any, ...]", value)]
    return (
        _data(value) if isinstance(value, AgentEvent | Failure | Chunk | SavedArtifact | Mapping) else value
    )


def write(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file, whole or not at all; its folder is made when missing.

    Raises:
        RecordingError: it cannot be written.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise RecordingError(f"The recording cannot be written to {target}: {error.strerror}.") from error


# --- in -------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> str:
    """The text of a file.

    Raises:
        RecordingError: it cannot be read, or is no text.
    """
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogatepass")
    except TypeError as error:
        raise RecordingError(f"A recording is read from the path of a file, not {path!r:.40}.") from error
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path} is no recording: it is not text.") from error


def recording_in(text: str, kind: type[V], where: str) -> V:
    """The recording in a text.

    Args:
        kind: the class of recordings.
        where: where the text is from, for messages.

    Raises:
        RecordingError: it is no whole recording, or one of a later format.
    """
    from adk_fluent.debug.layout import damage  # it needs pydantic, which the import of this module does not

    found = _document(text, where)
    wrong = damage(found, kind)
    if wrong is None:
        try:
            return _made(kind, found)
        except ValueError as error:  # a part of a message that the installed ADK does not know
            wrong = f"the installed google-adk cannot read a part of an event ({on_one_line(error):.200})"
    raise RecordingError(f"{where} is no whole recording: {wrong}. Record it again.")


def _number(text: str) -> float:
    made = float(text)
    if made - made != 0:
        raise ValueError(f"{text:.20} is no number that JSON can hold")
    return made


def _document(text: str, where: str) -> Json:
    if not isinstance(cast(object, text), str):
        raise RecordingError(f"A recording is made of text, not {text!r:.40}; Recording.load reads a file.")
    try:
        found: Any = json.loads(text, parse_constant=_number, parse_float=_number)
    except json.JSONDecodeError as error:
        # A text in it may itself be JSON, so that a file cut there ends with a bracket all the same.
        unended = error.msg.startswith("Unterminated string")
        if not text.lstrip().startswith("{"):
            raise RecordingError(
                f"{where} is no recording of adk-fluent; `adk-fluent record` makes one."
            ) from error
        cut = unended or not text.rstrip().endswith("}") or error.pos >= len(text.rstrip())
        what = "it ends in the middle" if cut else error.msg
        raise RecordingError(
            f"{where} is no whole recording: {what} (line {error.lineno}, column {error.colno}). "
            "Record it again."
        ) from error
    except RecursionError as error:
        raise RecordingError(f"{where} is no recording: it is nested too deep.") from error
    except ValueError as error:  # a number that is too long, or none
        what = on_one_line(error).partition(";")[0]
        raise RecordingError(f"{where} is no whole recording: {what}. Record it again.") from error
    if not isinstance(found, dict) or cast(Json, found).get("format") != FORMAT:
        raise RecordingError(f"{where} is no recording of adk-fluent; `adk-fluent record` makes one.")
    version = cast(Json, found).get("version")
    if not isinstance(version, str):
        what = f"version is {reprlib.repr(version):.60}; it should be text"
        raise RecordingError(f"{where} is no whole recording: {what}. Record it again.")
    if version.partition(".")[0] != str(MAJOR):
        raise RecordingError(
            f"{where} is a recording of format {on_one_line(version):.20}, and this adk-fluent reads "
            f"{MAJOR}.x. Upgrade adk-fluent, or record it again."
        )
    return cast(Json, found)


def _made(kind: type[V], data: Json) -> V:
    """A value of its JSON; what is not known of it is left out."""
    return kind(**{name: make(data[name]) for name, make in _makers(kind).items() if name in data})


@cache
def _makers(kind: type[Any]) -> Mapping[str, Callable[[Any], Any]]:
    """Field of a value → what makes it of JSON, by its type."""
    return {name: _maker(hint) for name, hint in get_type_hints(kind).items()}


def _maker(hint: Any) -> Callable[[Any], Any]:
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        make = _maker(next(each for each in inner if each is not type(None)))
        return lambda data: None if data is None else make(data)
    if kind is tuple:
        make = _maker(inner[0])
        return lambda data: tuple(map(make, data))
    if hint is AgentEvent:
        return event_from
    return partial(_made, cast("type[Any]", hint)) if is_dataclass(hint) else lambda data: data
