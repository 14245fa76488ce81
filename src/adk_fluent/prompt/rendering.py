"""The text of a prompt: pure functions, but for asking a model, which the caller does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from adk_fluent.errors import ExpressionError, MissingKeyError
from adk_fluent.ir.matching import holds, is_held
from adk_fluent.ir.template import Placeholder, Segment, about_braces, segments
from adk_fluent.prompt.spec import (
    HEADERS,
    UNNAMED,
    CallModel,
    Fill,
    FromState,
    PromptSpec,
    Rewrite,
    Section,
    When,
)

CHARACTERS_PER_TOKEN = 4
"""The usual estimate for English text; a model's tokenizer counts differently."""

COMPRESS = (
    "Rewrite the instructions below {limit}. Keep every rule, name, number, format and example that changes "
    "what is done, and leave out the rest. Answer with the instructions alone.\n\n{text}"
)
ADAPT = (
    "Rewrite the instructions below so that whoever follows them suits this audience: {audience}. Change the "
    "wording and the level of detail, but no rule, name, number or format. Answer with the instructions "
    "alone.\n\n{text}"
)

Block = tuple[Segment, ...]

NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


def text_of(prompt: PromptSpec) -> str:
    """The text of a static prompt, its placeholders as they are."""
    return "".join(_plain(_arranged(prompt, lambda text: (text,))))


def render(prompt: PromptSpec, state: Mapping[str, Any]) -> str:
    """The text of a prompt in a state.

    Raises:
        MissingKeyError: a placeholder without `?` names a key that is not set.
        ExpressionError: only a model can tell the text, or it names an artifact.
    """
    settled = settle(prompt, state)
    if any(isinstance(part, Rewrite) for part in settled.parts):
        raise ExpressionError(f"Only a model can tell this prompt; await .resolve(): {prompt!r:.60}")
    return _filled(segments_of(settled, state), state)


async def resolve(
    prompt: PromptSpec, state: Mapping[str, Any], call_model: CallModel, fill: Fill | None = None
) -> str:
    """The text of a prompt in a state, rewritten by a model where it says so."""
    settled = settle(prompt, state)
    written: dict[Rewrite, str] = {}
    for part in settled.parts:
        if isinstance(part, Rewrite):
            text = await resolve(part.source, state, call_model, fill)
            question = question_for(part, text)
            answer = None if question is None else await call_model(part, question)
            written[part] = (answer or text).strip()
    pieces = segments_of(settled, state, written)
    return _filled(pieces, state) if fill is None else await fill(pieces)


def question_for(rewrite: Rewrite, text: str) -> str | None:
    """What a model is asked, or `None` for a text that is short enough as it is."""
    if rewrite.operation == "adapt":
        return ADAPT.format(audience=rewrite.audience, text=text)
    if rewrite.max_tokens is None:
        return COMPRESS.format(limit="as briefly as you can", text=text)
    if len(text) <= rewrite.max_tokens * CHARACTERS_PER_TOKEN:
        return None
    return COMPRESS.format(limit=f"in at most {rewrite.max_tokens} tokens", text=text)


def settle(prompt: PromptSpec, state: Mapping[str, Any]) -> PromptSpec:
    """The prompt with each `when` replaced by what it holds, or by nothing.

    Raises:
        PredicateError: a predicate raised, or must be awaited.
    """
    settled = prompt.replace(parts=())
    for part in prompt.parts:
        if not isinstance(part, When):
            settled += PromptSpec(parts=(part,))
        elif holds(part.test, state, "P.when"):
            settled += settle(part.then, state)
    return settled


def segments_of(
    prompt: PromptSpec, state: Mapping[str, Any], written: Mapping[Rewrite, str] = NOTHING
) -> tuple[Segment, ...]:
    """A settled prompt in pieces: text, and placeholders to fill.

    Args:
        written: what a model made of each part that it rewrites; such text has no placeholders any more.
    """
    return tuple(_arranged(prompt, segments, state, written))


def _arranged(
    prompt: PromptSpec,
    cut: Callable[[str], Block],
    state: Mapping[str, Any] = NOTHING,
    written: Mapping[Rewrite, str] = NOTHING,
) -> list[Segment]:
    """The pieces of a settled prompt, section after section."""
    sections: dict[str, list[Block]] = {}
    for part in prompt.parts:
        match part:
            case Section():
                block = cut(part.text)
            case FromState():
                block = _values(part, state)
            case Rewrite():
                block = (written[part],)
            case _:  # pragma: no mutate block  # unreachable: `settle` leaves none
                raise AssertionError(f"a settled prompt has no {part!r}")
        if block:
            sections.setdefault(part.name, []).append(block)
    blocks = [_section(name, sections[name]) for name in _order(prompt, sections)]
    before, after = ([list(cut(text)) for text in texts] for texts in (prompt.preambles, prompt.postambles))
    return _joined([*before, *blocks, *after], "\n\n")


def _order(prompt: PromptSpec, present: Mapping[str, object]) -> list[str]:
    """The names of the sections there are, in the order they are shown."""
    wanted = [*prompt.order, "rewritten", *HEADERS, *present]
    return [name for name in dict.fromkeys(wanted) if name in present]


def _section(name: str, blocks: list[Block]) -> list[Segment]:
    body = _flat(blocks, "\n\n" if name in ("example", "rewritten", "template") else "\n")
    header = "" if name in UNNAMED else HEADERS.get(name, f"{name}:")
    return [f"{header}\n", *body] if header else body


def _values(part: FromState, state: Mapping[str, Any]) -> Block:
    """One line per key that is set; values are filled in later, so that no text in them is a placeholder."""
    lines = [
        (f"{key.rpartition(':')[2]}: ", Placeholder(key)) for key in part.keys if state.get(key) is not None
    ]
    return tuple(_flat(list[Block](lines), "\n"))


def _flat(blocks: list[Block], separator: str) -> list[Segment]:
    return _joined([list(block) for block in blocks], separator)


def _joined(blocks: list[list[Segment]], separator: str) -> list[Segment]:
    pieces: list[Segment] = []
    for block in blocks:
        pieces += [separator, *block] if pieces else block
    return pieces


def _plain(pieces: list[Segment]) -> list[str]:
    return [piece for piece in pieces if isinstance(piece, str)]


def _filled(pieces: tuple[Segment, ...], state: Mapping[str, Any]) -> str:
    return "".join(piece if isinstance(piece, str) else _value(piece, state) for piece in pieces)


def _value(placeholder: Placeholder, state: Mapping[str, Any]) -> str:
    if placeholder.artifact:
        raise ExpressionError(
            f"{{artifact.{placeholder.key}}}: a prompt reads artifacts only while an agent runs."
        )
    value = state.get(placeholder.key)
    if value is None and not placeholder.optional and not is_held(state, placeholder.key):
        raise MissingKeyError(
            f"The prompt needs state key {placeholder.key!r}, which is not set. Write {{{placeholder.key}?}} "
            f"if it may be missing. {about_braces(placeholder.key)}"
        )
    return "" if value is None else str(value)
