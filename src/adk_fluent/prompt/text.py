"""The text of a prompt: the order of its sections, their headers, and the placeholders in them.

Placeholders are filled at last, so that braces in a state value or in a model's answer stay as they are. The
functions are pure: `PromptSpec` decides the conditions of a prompt, and its caller asks helper models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from adk_fluent.errors import ExpressionError, MissingKeyError
from adk_fluent.ir.predicates import is_held
from adk_fluent.ir.template import Placeholder, Segment, about_braces

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


def question(
    operation: Literal["compress", "adapt"], text: str, *, audience: str, max_tokens: int | None
) -> str | None:
    """The request to a helper model that rewrites a text; `None` if the text is already short enough."""
    if operation == "adapt":
        return ADAPT.format(audience=audience, text=text)
    if max_tokens is None:
        return COMPRESS.format(limit="as briefly as you can", text=text)
    if len(text) <= max_tokens * CHARACTERS_PER_TOKEN:
        return None
    return COMPRESS.format(limit=f"in at most {max_tokens} tokens", text=text)


def arranged(
    blocks: Iterable[tuple[str, Block]], order: Sequence[str], before: Iterable[Block], after: Iterable[Block]
) -> Block:
    """The segments of a whole prompt.

    Args:
        blocks: the blocks of its sections, each with the name of the section.
        order: the names of sections that come first.
        before: what comes before all sections.
        after: what comes after them.
    """
    sections: dict[str, list[Block]] = {}
    for name, block in blocks:
        if block:
            sections.setdefault(name, []).append(block)
    bodies = (_section(name, sections[name]) for name in _order(order, sections))
    return tuple(_joined([*map(list, before), *bodies, *map(list, after)], "\n\n"))


def _order(order: Sequence[str], present: Mapping[str, object]) -> list[str]:
    """The names of the present sections, in the order in which the text shows them."""
    wanted = [*order, "rewritten", *HEADERS, *present]
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


def filled(pieces: Block, state: Mapping[str, Any]) -> str:
    """The text of segments, with the placeholders filled from a state.

    Raises:
        MissingKeyError: a placeholder without `?` names a key that is not set.
        ExpressionError: a placeholder names an artifact.
    """
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
