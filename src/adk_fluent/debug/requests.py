"""Requests of models as JSON, and what differs between two of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, get_origin

from adk_fluent._encodings import is_left_out, note_of, text_of
from adk_fluent._redaction import REDACTED

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest

Json = dict[str, Any]

_APART: Final = frozenset({"system_instruction", "tools", "response_schema", "response_json_schema"})
"""Fields of a configuration that stand for themselves in what is recorded."""


def request_json(request: LlmRequest) -> Json:
    """All that a model is sent, as JSON: `model`, `instruction`, `contents`, `tools`, `answer`, `options`.

    Live objects, such as a class that says what the answer must look like, become what a model is told of
    them.
    """
    config: Any = request.config
    options = plain(config)
    shape = config.response_schema or getattr(config, "response_json_schema", None)
    made: Json = {
        "model": request.model,
        "instruction": plain(config.system_instruction),
        "contents": plain(request.contents),
        "tools": [tool for tool in map(plain, config.tools or ()) if tool],
        "answer": None if shape is None else plain(shape),
        "options": {name: value for name, value in options.items() if name not in _APART},
    }
    return {name: value for name, value in made.items() if value not in (None, [], {})}


def plain(value: Any) -> Any:
    """A value as JSON holds it; what JSON has no form for is called by its type.

    Nothing raises: of a value that cannot be converted as a whole, such as one that contains itself, the
    parts that can be are kept. What stands in more than `DEEPEST` lists and objects is called by its type,
    too.
    """
    made = _converted(value, ())
    return cut(made) if deeper_than(made, DEEPEST) else made


def _converted(value: Any, around: tuple[int, ...]) -> Any:
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(
            value,
            by_alias=False,
            exclude_none=True,
            bytes_mode="base64",
            inf_nan_mode="null",
            fallback=_named,
        )
    except Exception:  # noqa: BLE001  # a value may raise anything
        if id(value) in around or len(around) > DEEPEST_BY_HAND:
            return f"<{type(value).__name__}>"
        inner = (*around, id(value))
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {str(key): _converted(item, inner) for key, item in entries}
        if isinstance(value, list | tuple | set | frozenset):
            return [_converted(item, inner) for item in cast("list[Any]", value)]
        return f"<{type(value).__name__}>"


def _named(value: Any) -> Any:
    schema = getattr(value, "model_json_schema", None)
    if get_origin(value) is not None:
        from pydantic import TypeAdapter

        return TypeAdapter(value).json_schema()
    if isinstance(value, type):
        return schema() if schema is not None else value.__qualname__
    return f"<{type(value).__name__}>"


DEEPEST_BY_HAND: Final = 32
"""Levels of a value that are looked into where it cannot be converted as a whole."""


DEEPEST: Final = 100
"""Levels of a value that are recorded; Python and pydantic reach their own limits at about 250."""


def deeper_than(value: Any, most: int) -> bool:
    """Whether more lists and objects than this stand in each other."""
    level = [cast(object, value)]
    for _ in range(most):
        level = [item for each in level for item in _items(each)]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []


def cut(value: Any, most: int = DEEPEST) -> Any:
    """A value of JSON, without what stands in more lists and objects than this.

    >>> cut([[["deep"]], 1], 2)
    [['<list>'], 1]
    """
    if not isinstance(value, dict | list):
        return value
    if most == 0:
        return f"<{type(cast(object, value)).__name__}>"
    if isinstance(value, dict):
        return {key: cut(item, most - 1) for key, item in cast(Json, value).items()}
    return [cut(item, most - 1) for item in cast("list[Any]", value)]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with what it was made of.

    Attributes:
        request: as `request_json` gives it.
        prompt: the agent's templates, as they are written.
        state: the keys that the agent reads, with their values.
        default: the model that its release of ADK asks where an agent names none.
    """

    request: Mapping[str, Any]
    prompt: tuple[str, ...] = ()
    state: Mapping[str, Any] | None = None
    default: str | None = None


def _alike(one: Any, other: Any) -> bool:
    """Whether two requests differ only in what was redacted in one of them.

    A run that is replayed reads the state of the recording, where a password is redacted under its key; the
    recorded instruction may hold it, if it is an ordinary word.
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _fits(one, other) or _fits(other, one) or _alike_inside(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        old, new = cast(Json, one), cast(Json, other)
        return old.keys() == new.keys() and all(_alike(value, new[key]) for key, value in old.items())
    if isinstance(one, list) and isinstance(other, list):
        olds, news = cast("list[Any]", one), cast("list[Any]", other)
        return len(olds) == len(news) and all(map(_alike, olds, news))
    return one == other


def _alike_inside(one: str, other: str) -> bool:
    """Whether two files differ only in that, or one of them was left out."""
    if is_left_out(one, other) or is_left_out(other, one):
        return True
    texts = text_of(one), text_of(other)
    return None not in texts and any(
        REDACTED in a and _fits(a, b) for a, b in (texts, texts[::-1]) if a is not None and b is not None
    )


def _fits(redacted: str, text: str) -> bool:
    """Whether a text is what a redacted one may have been."""
    first, *rest = redacted.split(REDACTED)
    if not rest or not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    at, end = len(first), len(text) - len(rest[-1])
    for piece in rest[:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end


Compare = Callable[[Asked, Asked], Iterator[str]]


def same_request(before: Asked, after: Asked, *, worded_alike: bool = True) -> bool:
    """Whether two requests are the same; see `changed_channels`."""
    if worded_alike:
        return before.request == after.request or _alike(before.request, after.request)
    return not changed_channels(before, after, worded_alike=False)


def changed_channels(before: Asked, after: Asked, *, worded_alike: bool = True) -> dict[str, list[str]]:
    """Channel → what changed in it, as lines of a diff; empty for two requests that are the same.

    Args:
        worded_alike: whether both were put together by one release of ADK. Releases word the same
            conversation and options differently, and have different models by default, so else only what
            does not depend on that is compared.

    `prompt` is what the agent is told to do, `state` the keys that it reads, `history` the conversation,
    `answer` the form that its answer must have. An instruction whose text differs because the state does
    counts as `state`.
    """
    if before == after or (worded_alike and _alike(before.request, after.request)):
        return {}
    compare = _ALIKE if worded_alike else _OWN
    found = {channel: list(lines(before, after)) for channel, lines in compare.items()}
    return {channel: lines for channel, lines in found.items() if lines}


def _templates(before: Asked, after: Asked) -> Iterator[str]:
    yield from lines_between("\n".join(before.prompt), "\n".join(after.prompt))


def _prompt(before: Asked, after: Asked) -> Iterator[str]:
    old, new = before.request.get("instruction"), after.request.get("instruction")
    if old == new:
        return
    if before.prompt != after.prompt:
        yield from lines_between("\n".join(before.prompt), "\n".join(after.prompt))
    elif not any(_state(before, after)):
        yield from lines_between(_text(old), _text(new))


def _state(before: Asked, after: Asked) -> Iterator[str]:
    if before.state is None or after.state is None or before.request == after.request:
        return
    for key in sorted({*before.state, *after.state}):
        old, new = before.state.get(key), after.state.get(key)
        if old != new:
            yield from lines_between(f"{key} = {_text(old)}", f"{key} = {_text(new)}")


def _history(before: Asked, after: Asked) -> Iterator[str]:
    yield from _lists("contents", before, after, message_text)


def _tools(before: Asked, after: Asked) -> Iterator[str]:
    old = {name: _text(of) for name, of in _declared(before.request)}
    new = {name: _text(of) for name, of in _declared(after.request)}
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"- {name}"
        elif name not in old:
            yield f"+ {name}"
        elif old[name] != new[name]:
            yield from lines_between(f"{name}: {old[name]}", f"{name}: {new[name]}")


def _declared(request: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each tool of a request: its name, and what the model is told of it."""
    for number, tool in enumerate(cast("list[Any]", request.get("tools") or [])):
        known = cast(Json, tool) if isinstance(tool, dict) else {}
        functions = cast("list[Json]", known.get("function_declarations"))
        if not functions:
            yield next(iter(known), f"tool {number}"), tool
        for declared in functions or ():
            yield str(declared.get("name")), declared


def _field(name: str) -> Compare:
    def lines(before: Asked, after: Asked) -> Iterator[str]:
        old, new = before.request.get(name), after.request.get(name)
        if old != new:
            yield from lines_between(_text(old), _text(new))

    return lines


def _model(before: Asked, after: Asked) -> Iterator[str]:
    """The model, unless both are asked because an agent names none: releases have different ones."""
    if not all(asked.request.get("model") == asked.default for asked in (before, after)):
        yield from _field("model")(before, after)


def _lists(name: str, before: Asked, after: Asked, text: Any) -> Iterator[str]:
    old: list[Any] = before.request.get(name) or []
    new: list[Any] = after.request.get(name) or []
    if old != new:
        yield from lines_between("\n".join(map(text, old)), "\n".join(map(text, new)))


_ALIKE: Final[Mapping[str, Compare]] = {
    "prompt": _prompt,
    "state": _state,
    "history": _history,
    "tools": _tools,
    "answer": _field("answer"),
    "model": _field("model"),
    "options": _field("options"),
}
"""What may differ between two requests, in the order in which it is told."""

_OWN: Final[Mapping[str, Compare]] = {"prompt": _templates, "state": _state, "model": _model}
"""What of it does not depend on the release of ADK."""


def message_text(content: Mapping[str, Any]) -> str:
    """One message of a conversation, for a person."""
    parts = cast("list[Json]", content.get("parts") or [])
    return f"{content.get('role') or 'user'}: {' '.join(map(part_text, parts))}"


def part_text(part: Mapping[str, Any]) -> str:
    """One part of a message, for a person."""
    if "text" in part:
        return str(part["text"])
    if call := part.get("function_call"):
        return f"<calls {call.get('name')}({_text(call.get('args') or {})})>"
    if response := part.get("function_response"):
        return f"<result of {response.get('name')}: {_text(response.get('response'))}>"
    if blob := part.get("inline_data"):
        data = blob.get("data") or ""
        return f"<{blob.get('mime_type')}, {note_of(data) or f'{len(data)} characters of base64'}>"
    return f"<{', '.join(part)}>"


def request_lines(request: Mapping[str, Any]) -> str:
    """A recorded request, for a person."""
    lines = [f"model: {request.get('model')}"]
    if instruction := request.get("instruction"):
        lines.append(f"instruction: {_text(instruction)}")
    lines += [message_text(content) for content in request.get("contents") or ()]
    if tools := [name for name, _ in _declared(request)]:
        lines.append(f"tools: {', '.join(tools)}")
    return "\n".join(lines)


def lines_between(old: str, new: str) -> Iterator[str]:
    """What is in one text and not in the other, line by line, each with its sign.

    >>> list(lines_between("one\\ntwo", "one\\n2"))
    ['- two', '+ 2']
    """
    before, after = old.splitlines(), new.splitlines()
    if len(before) * len(after) > MOST_PAIRS:
        start = _alike_at_start(before, after)
        end = _alike_at_start(before[start:][::-1], after[start:][::-1])
        yield from (f"- {line}" for line in before[start : len(before) - end])
        yield from (f"+ {line}" for line in after[start : len(after) - end])
        return
    matcher = difflib.SequenceMatcher(None, before, after)
    for kind, start, end, begin, until in matcher.get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in before[start:end])
            yield from (f"+ {line}" for line in after[begin:until])


def _alike_at_start(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def similarity(one: str, other: str) -> float:
    """How much of two texts is alike, from 0 to 1: twice the matching characters over all of them.

    The measure of Ratcliff and Obershelp, as `difflib.SequenceMatcher.ratio` computes it; beyond 2,000
    characters words are compared, and beyond 2,000 words no longer their order.

    >>> similarity("Hello.", "Helo."), similarity("", "")
    (0.9090909090909091, 1.0)
    """
    long = max(len(one), len(other)) > 2000
    texts = (one.split(), other.split()) if long else (one, other)
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    return matcher.quick_ratio() if max(map(len, texts)) > 2000 else matcher.ratio()


MOST_PAIRS: Final = 1_000_000
"""Lines of one text times those of the other; beyond it, all from the first to the last change differs."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
