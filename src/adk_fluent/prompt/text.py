"""The text of a prompt in a state.

`resolve` does it in three stages. `settle` replaces each condition (`P.when`) by the parts that hold in this
state. Then the caller's `call_model` answers one question for each part that a helper model rewrites. At last
`segments_of` brings the sections into their order and returns text and placeholders; only now placeholders
are filled, so that braces in a state value or in a model's answer stay as they are. The functions are pure:
the caller asks the model and fills artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.errors import ExpressionError, MissingKeyError
from adk_fluent.ir.predicates import is_held
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
"""The standard sections in their order, each with its header, the line above its text."""

UNNAMED: Final = frozenset({"template", "from_state", "rewritten"})
"""Names of parts without a header; in the order of sections they count as custom sections."""

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
"""The answer of a helper model for each part that it rewrote."""

NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


def text_of(prompt: PromptSpec) -> str:
    """The text of a static prompt, with its `{key}` placeholders."""
    return "".join(_plain(_arranged(prompt, lambda text: (text,))))


def render(prompt: PromptSpec, state: Mapping[str, Any]) -> str:
    """The text of a prompt in a state.

    Raises:
        MissingKeyError: a placeholder without `?` names a key that is not set.
        ExpressionError: a helper model must rewrite the prompt, or the prompt names an artifact.
    """
    settled = settle(prompt, state)
    if settled.needs_model:
        raise ExpressionError(f"A helper model must rewrite this prompt; await .resolve(): {prompt!r:.60}")
    return _filled(segments_of(settled, state), state)


async def resolve(
    prompt: PromptSpec, state: Mapping[str, Any], call_model: CallModel, fill: Fill | None = None
) -> str:
    """The text of a prompt in a state, once a helper model rewrote what `compress` and `adapt` ask for."""
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
    """The request to the helper model, or `None` if the text is already short enough."""
    if rewrite.operation == "adapt":
        return ADAPT.format(audience=rewrite.audience, text=text)
    if rewrite.max_tokens is None:
        return COMPRESS.format(limit="as briefly as you can", text=text)
    if len(text) <= rewrite.max_tokens * CHARACTERS_PER_TOKEN:
        return None
    return COMPRESS.format(limit=f"in at most {rewrite.max_tokens} tokens", text=text)


def settle(prompt: PromptSpec, state: Mapping[str, Any]) -> PromptSpec:
    """The prompt with each `when` replaced by its parts if its condition holds, and left out otherwise.

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
    """A settled prompt as segments: texts, and placeholders to fill.

    Args:
        written: the answers of helper models. Braces in them are text, not placeholders.
    """
    return tuple(_arranged(prompt, segments, state, written))


def _arranged(
    prompt: PromptSpec,
    cut: Cut,
    state: Mapping[str, Any] = NOTHING,
    written: Written = NOTHING,
) -> list[Segment]:
    """The segments of a settled prompt, section after section."""
    sections: dict[str, list[Block]] = {}
    for part in prompt.parts:
        block = part.block(cut, state, written)
        if block:
            sections.setdefault(part.names[0], []).append(block)
    blocks = [_section(name, sections[name]) for name in _order(prompt, sections)]
    before, after = ([list(cut(text)) for text in texts] for texts in (prompt.preambles, prompt.postambles))
    return _joined([*before, *blocks, *after], "\n\n")


def _order(prompt: PromptSpec, present: Mapping[str, object]) -> list[str]:
    """The names of the present sections, in the order in which the text shows them."""
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
