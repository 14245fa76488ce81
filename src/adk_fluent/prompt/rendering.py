"""The text of a prompt: pure functions, but for asking a model, which the caller does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.errors import ExpressionError, MissingKeyError
from adk_fluent.ir.matching import is_held
from adk_fluent.ir.template import Placeholder, Segment, about_braces, segments

if TYPE_CHECKING:
    from adk_fluent.prompt.spec import CallModel, Fill, PromptSpec, Rewrite

HEADERS: Final[Mapping[str, str]] = {
    "role": "",
    "context": "Context:",
    "task": "Task:",
    "constraint": "Constraints:",
    "format": "Output Format:",
    "example": "Examples:",
}
"""The standard sections in their order, each with the line above its text."""

UNNAMED: Final = frozenset({"template", "from_state", "rewritten"})
"""Sections without a line above their text; they stand where custom sections do."""

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
Cut = Callable[[str], Block]
Written = Mapping["Rewrite", str]
"""What a model made of each part that it rewrites."""

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
    if settled.needs_model:
        raise ExpressionError(f"Only a model can tell this prompt; await .resolve(): {prompt!r:.60}")
    return _filled(segments_of(settled, state), state)


async def resolve(
    prompt: PromptSpec, state: Mapping[str, Any], call_model: CallModel, fill: Fill | None = None
) -> str:
    """The text of a prompt in a state, rewritten by a model where it says so."""
    settled = settle(prompt, state)
    written: dict[Rewrite, str] = {}
    for rewrite in (each for part in settled.parts for each in part.rewrites):
        text = await resolve(rewrite.source, state, call_model, fill)
        question = question_for(rewrite, text)
        answer = None if question is None else await call_model(rewrite, question)
        written[rewrite] = (answer or text).strip()
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
        settled += part.settled(state)
    return settled


def segments_of(
    prompt: PromptSpec, state: Mapping[str, Any], written: Written = NOTHING
) -> tuple[Segment, ...]:
    """A settled prompt in pieces: text, and placeholders to fill.

    Args:
        written: what a model made of each part that it rewrites; such text has no placeholders any more.
    """
    return tuple(_arranged(prompt, segments, state, written))


def _arranged(
    prompt: PromptSpec,
    cut: Cut,
    state: Mapping[str, Any] = NOTHING,
    written: Written = NOTHING,
) -> list[Segment]:
    """The pieces of a settled prompt, section after section."""
    sections: dict[str, list[Block]] = {}
    for part in prompt.parts:
        block = part.block(cut, state, written)
        if block:
            sections.setdefault(part.names[0], []).append(block)
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
