"""`PromptSpec`: a frozen value of parts (sections, conditions, state values) and their arrangement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.ir.annotations import InstructionSpec, StateSpec
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import Access, access
from adk_fluent.ir.keys import KeyRead, KeyReads, Level, declared, in_templates
from adk_fluent.ir.predicates import Match, Predicate, holds
from adk_fluent.ir.template import Placeholder, Segment, all_keys, segments
from adk_fluent.prompt import text as texts
from adk_fluent.prompt.text import HEADERS, UNNAMED, Block, Cut
from adk_fluent.spelling import did_you_mean

CallModel: TypeAlias = Callable[["Rewrite", str], Awaitable[str | None]]
"""Asks a helper model: `(rewrite, request) -> answer`; `None` if the call failed."""

Fill: TypeAlias = Callable[[tuple[Segment, ...]], Awaitable[str]]
"""Fills the placeholders of a prompt and returns its text."""

Written: TypeAlias = Mapping["Rewrite", str]
"""The answer of a helper model for each part that it rewrote."""

NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class Part(StateSpec):
    """Base of the parts of a prompt: each kind declares the state keys it reads and when its text changes."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its sections: its own name, or all sections of the prompt that it holds."""
        return (getattr(self, "name", ""),)

    @property
    def depends(self) -> bool:
        """True if its text depends on the run; False for constant text with `{key}` placeholders."""
        return True

    @property
    def needs_model(self) -> bool:
        """True if a helper model must rewrite its text."""
        return False

    @property
    def templates(self) -> tuple[str, ...]:
        """Its texts that every run uses; their placeholders must be filled."""
        return ()

    def key_reads(self, *, certain: bool) -> KeyReads:
        """The state keys it reads, apart from those in its templates.

        Args:
            certain: True if no condition decides about this part; otherwise its keys may be missing.
        """
        return iter(())

    def chosen(self, names: Container[str], *, keep: bool) -> Part | None:
        """This part if its section stays, else `None`: `keep` keeps only these names, or leaves them out."""
        return self if (self.names[0] in names) == keep else None

    def untagged(self) -> Part:
        """The same part without version tags (`P.versioned`)."""
        return self

    def settled(self, state: Mapping[str, Any]) -> PromptSpec:
        """This part as a prompt, its conditions decided by a state; see `PromptSpec.settled`."""
        return PromptSpec(parts=(self,))

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """The parts in it that a helper model rewrites."""
        return ()

    def block(self, cut: Cut, state: Mapping[str, Any], written: Written) -> Block:
        """The segments of its text in a state, where `cut` divides a template into segments."""
        raise AssertionError(f"a settled prompt has no {self!r}")  # pragma: no mutate  # unreachable


@frozen
class Section(Part):
    """Text under a name: a standard section, `template`, or a custom section."""

    name: str
    text: str

    @property
    def depends(self) -> bool:
        return self.name == "template"

    @property
    def access(self) -> Access:
        return _keys(self.text)

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.text,)

    def block(self, cut: Cut, state: Mapping[str, Any], written: Written) -> Block:
        return cut(self.text)

    def __repr__(self) -> str:
        if self.name in HEADERS or self.name in UNNAMED:
            return f"P.{self.name}({self.text!r})"
        return f"P.section({self.name!r}, {self.text!r})"


@frozen
class FromState(Part):
    """State values, one per line, named by their keys; a key that is not set is left out."""

    keys: tuple[str, ...]
    name: str = "from_state"

    @property
    def access(self) -> Access:
        return Access(frozenset(self.keys))

    def key_reads(self, *, certain: bool) -> KeyReads:
        level: Level = "required" if certain else "tolerant"
        return (KeyRead(key, "prompt", level) for key in self.keys)

    def block(self, cut: Cut, state: Mapping[str, Any], written: Written) -> Block:
        """One line for each key that is set.

        The values are filled in later, so braces in a value are text and not placeholders.
        """
        pieces: list[Segment] = []
        for key in self.keys:
            if state.get(key) is not None:
                pieces += [*(["\n"] if pieces else []), f"{key.rpartition(':')[2]}: ", Placeholder(key)]
        return tuple(pieces)

    def __repr__(self) -> str:
        return f"P.from_state({', '.join(map(repr, self.keys))})"


@frozen
class When(Part):
    """A prompt that the text includes only if a predicate holds for the state."""

    test: Predicate
    then: PromptSpec

    @property
    def names(self) -> tuple[str, ...]:
        return self.then.sections

    @property
    def needs_model(self) -> bool:
        return self.then.needs_model

    @property
    def access(self) -> Access:
        test = access(self.test)
        return Access(test.reads, reads_known=test.reads_known) | self.then.access

    def key_reads(self, *, certain: bool) -> KeyReads:
        yield from declared([self.test], "function", "tolerant")
        yield from in_templates(self.then.templates, "prompt", "tolerant")
        yield from self.then.key_reads(certain=False)

    def chosen(self, names: Container[str], *, keep: bool) -> Part | None:
        inner = _chosen(self.then.parts, names, keep=keep)
        return self.replace(then=self.then.replace(parts=inner)) if inner else None

    def untagged(self) -> Part:
        return self.replace(then=_untagged(self.then))

    def settled(self, state: Mapping[str, Any]) -> PromptSpec:
        return self.then.settled(state) if holds(self.test, state, "P.when") else PromptSpec()

    def __repr__(self) -> str:
        test = self.test
        key = repr(test.key) if isinstance(test, Match) and test.op == "truthy" else None
        return f"P.when({key or getattr(test, '__name__', repr(test))}, {self.then!r})"


@frozen
class Rewrite(Part):
    """A prompt that a helper model rewrites.

    Attributes:
        source: the prompt to rewrite.
        operation: `compress` shortens it, `adapt` fits it to an audience.
        model: a model name or a `BaseLlm`; `None` is the agent's own model.
        max_tokens: for `compress`, the longest result, at four characters a token; `None` for no limit.
        audience: for `adapt`, the readers of the agent's answers.
        name: the section name of the result.
    """

    source: PromptSpec
    operation: Literal["compress", "adapt"]
    model: Any = None
    max_tokens: int | None = None
    audience: str = ""
    name: str = "rewritten"

    @property
    def needs_model(self) -> bool:
        return True

    @property
    def access(self) -> Access:
        return self.source.access

    @property
    def templates(self) -> tuple[str, ...]:
        return self.source.templates

    def key_reads(self, *, certain: bool) -> KeyReads:
        return self.source.key_reads(certain=certain)

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        return (self,)

    def block(self, cut: Cut, state: Mapping[str, Any], written: Written) -> Block:
        return (written[self],)

    def question(self, text: str) -> str | None:
        """The request to the helper model, or `None` if the text is already short enough."""
        return texts.question(self.operation, text, audience=self.audience, max_tokens=self.max_tokens)

    def __repr__(self) -> str:
        options = {"max_tokens": self.max_tokens, "audience": self.audience or None, "model": self.model}
        given = ", ".join(f"{key}={value!r}" for key, value in options.items() if value is not None)
        return f"({self.source!r} | P.{self.operation}({given}))"


@frozen
class PromptSpec(InstructionSpec):
    """A prompt. The `P` factories return one, and `.instruct` takes one.

    `a + b` has the parts of both; `p | P.only("task")` changes the arrangement. `str(p)` is the text of a
    static prompt, `{key}` placeholders included; `p.render(state)` fills them in.

    Attributes:
        parts: its sections and other parts, in order of appearance.
        order: names of sections that come first, in this order (`P.reorder`).
        preambles: texts before everything (`P.scaffolded`).
        postambles: texts after everything.
        tag: the version it was given (`P.versioned`); not part of the text.
    """

    parts: tuple[Part, ...] = ()
    order: tuple[str, ...] = ()
    preambles: tuple[str, ...] = ()
    postambles: tuple[str, ...] = ()
    tag: str = ""

    def __add__(self, other: PromptSpec) -> PromptSpec:
        """Join two prompts; if both have an order or a tag, the left one's counts."""
        if not isinstance(other, PromptSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            hint = f" {other!r} stands to the right of |." if isinstance(other, Arrangement) else ""
            raise ArgumentError(f"+ joins two P prompts, not {type(other).__name__}.{hint}")
        return PromptSpec(
            parts=(*self.parts, *other.parts),
            order=self.order or other.order,
            preambles=(*self.preambles, *other.preambles),
            postambles=(*other.postambles, *self.postambles),
            tag=self.tag or other.tag,
        )

    def __or__(self, arrangement: Arrangement) -> PromptSpec:
        """Rearrange this prompt by `P.only`, `P.without`, `P.reorder`, `P.compress` or `P.adapt`."""
        if not isinstance(arrangement, Arrangement):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            hint = " Join prompts with +." if isinstance(arrangement, PromptSpec) else ""
            raise ArgumentError(
                "| takes P.only, P.without, P.reorder, P.compress or P.adapt on its right, not "
                f"{type(arrangement).__name__}.{hint}"
            )
        return arrangement.apply(self)

    @property
    def static(self) -> bool:
        """True if its text is the same in every run, apart from `{key}` placeholders."""
        return not any(part.depends for part in self.parts)

    @property
    def needs_model(self) -> bool:
        """True if a helper model must rewrite a part of it."""
        return any(part.needs_model for part in self.parts)

    def key_reads(self, *, certain: bool = True) -> KeyReads:
        """The state keys its parts read, apart from those in its templates.

        Args:
            certain: False if a condition decides about the prompt; then its keys may be missing.
        """
        for part in self.parts:
            yield from part.key_reads(certain=certain)

    @property
    def access(self) -> Access:
        """The state keys it reads, as far as they are known before a run."""
        return _sum(part.access for part in self.parts) | _keys(*self.preambles, *self.postambles)

    @property
    def templates(self) -> tuple[str, ...]:
        """Its texts that every run uses; their placeholders must be filled."""
        return (*self.preambles, *(text for part in self.parts for text in part.templates), *self.postambles)

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of all its sections, also under conditions, each once, in order of appearance."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of its content: the same for equal prompts in every process; tags do not count."""
        from adk_fluent.ir.codec import value_hash

        return value_hash(_untagged(self))

    def render(self, state: Mapping[str, Any]) -> str:
        """The text in this state, with its placeholders filled.

        Raises:
            MissingKeyError: a placeholder without `?` names a key that is not set.
            ExpressionError: a helper model must rewrite the prompt (use `resolve`), or it names an artifact.
        """
        settled = self.settled(state)
        if settled.needs_model:
            raise ExpressionError(f"A helper model must rewrite this prompt; await .resolve(): {self!r:.60}")
        return texts.filled(settled._segments(segments, state), state)

    async def resolve(self, state: Mapping[str, Any], call_model: CallModel, fill: Fill | None = None) -> str:
        """The text in this state, after a helper model rewrote the parts under `compress` and `adapt`.

        Args:
            call_model: asks the helper model; the answer `None` leaves the text as it was.
            fill: fills placeholders; by default from `state` alone. A backend also fills artifacts.
        """
        settled = self.settled(state)
        written: dict[Rewrite, str] = {}
        for rewrite in (each for part in settled.parts for each in part.rewrites):
            text = await rewrite.source.resolve(state, call_model, fill)
            question = rewrite.question(text)
            answer = None if question is None else await call_model(rewrite, question)
            written[rewrite] = (answer or text).strip()
        pieces = settled._segments(segments, state, written)
        return texts.filled(pieces, state) if fill is None else await fill(pieces)

    def settled(self, state: Mapping[str, Any]) -> PromptSpec:
        """The prompt with each `P.when` replaced by its parts if its condition holds, and left out otherwise.

        Raises:
            PredicateError: a predicate raised, or must be awaited.
        """
        settled = self.replace(parts=())
        for part in self.parts:
            settled += part.settled(state)
        return settled

    def _segments(self, cut: Cut, state: Mapping[str, Any] = NOTHING, written: Written = NOTHING) -> Block:
        """The texts and placeholders of a settled prompt, section after section."""
        blocks = ((part.names[0], part.block(cut, state, written)) for part in self.parts)
        return texts.arranged(blocks, self.order, map(cut, self.preambles), map(cut, self.postambles))

    def __str__(self) -> str:
        """The text of a static prompt, with its placeholders.

        Raises:
            ExpressionError: the text depends on the state.
        """
        if dynamic := [part for part in self.parts if part.depends]:
            raise ExpressionError(
                f"A prompt with {dynamic[0]!r:.60} depends on the state; use .render(state)."
            )
        return texts.filled(self._segments(lambda text: (text,)), NOTHING)

    def __repr__(self) -> str:
        shown = " + ".join(map(repr, self.parts)) or "PromptSpec()"
        if self.order:
            shown = f"({shown}) | P.reorder({', '.join(map(repr, self.order))})"
        for before, after in zip_longest(reversed(self.preambles), self.postambles, fillvalue=""):
            shown = f"P.scaffolded({shown}, preamble={before!r}, postamble={after!r})"
        return f"P.versioned({shown}, tag={self.tag!r})" if self.tag else shown


@frozen
class Arrangement(Frozen):
    """One change of a prompt, written to the right of `|`.

    Attributes:
        operation: `only`, `without`, `reorder`, `compress` or `adapt`.
        names: the sections to keep, leave out or put first; for the first three operations.
        options: the parameters of `compress` and `adapt`, as pairs.
    """

    operation: Literal["only", "without", "reorder", "compress", "adapt"]
    names: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def apply(self, prompt: PromptSpec) -> PromptSpec:
        """Return the rearranged prompt.

        Raises:
            ExpressionError: a name is neither a standard section nor a section of the prompt.
        """
        if self.operation in ("compress", "adapt"):
            rewrite = Rewrite(prompt.replace(tag=""), self.operation, **dict(self.options))
            return PromptSpec(parts=(rewrite,), tag=prompt.tag)
        known = [*HEADERS, *prompt.sections]
        for name in self.names:
            if name not in known:
                near = did_you_mean(name, known)
                raise ExpressionError(f"P.{self.operation}({name!r}): the prompt has no such section.{near}")
        if self.operation == "reorder":
            return prompt.replace(order=self.names)
        return prompt.replace(parts=_chosen(prompt.parts, self.names, keep=self.operation == "only"))

    def __repr__(self) -> str:
        given = [repr(name) for name in self.names] + [f"{key}={value!r}" for key, value in self.options]
        return f"P.{self.operation}({', '.join(given)})"


def _chosen(parts: tuple[Part, ...], names: Container[str], *, keep: bool) -> tuple[Part, ...]:
    left = (part.chosen(names, keep=keep) for part in parts)
    return tuple(part for part in left if part is not None)


def _untagged(prompt: PromptSpec) -> PromptSpec:
    return prompt.replace(tag="", parts=tuple(part.untagged() for part in prompt.parts))


def _keys(*texts: str) -> Access:
    return Access(frozenset(key for text in texts for key in all_keys(text)))


def _sum(parts: Iterable[Access]) -> Access:
    total = Access()
    for part in parts:
        total |= part
    return total
