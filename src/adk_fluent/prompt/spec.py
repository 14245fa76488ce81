"""What a prompt is: a frozen value of sections, parts that depend on state, and their arrangement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.ir.annotations import InstructionSpec, StateSpec
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import Access, access
from adk_fluent.ir.keys import KeyRead, KeyReads, Level, declared, in_templates
from adk_fluent.ir.matching import Match, Predicate, holds
from adk_fluent.ir.template import Placeholder, Segment, all_keys
from adk_fluent.prompt import rendering
from adk_fluent.prompt.rendering import HEADERS, UNNAMED, Block, Cut, Written
from adk_fluent.spelling import did_you_mean

CallModel: TypeAlias = Callable[["Rewrite", str], Awaitable[str | None]]
"""Asks a model: `(what rewrites the prompt, the question) -> the answer`, `None` when the call failed."""

Fill: TypeAlias = Callable[[tuple[Segment, ...]], Awaitable[str]]
"""Fills the placeholders of a prompt."""


class Part(StateSpec):
    """Base of what a prompt consists of: each kind says itself what it reads and when its text changes."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sections it can have: its own, unless it holds a prompt with others."""
        return (getattr(self, "name", ""),)

    @property
    def depends(self) -> bool:
        """Whether it is more than text that is the same in every run."""
        return True

    @property
    def needs_model(self) -> bool:
        """Whether a model must be asked for its text."""
        return False

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts in it that every run uses."""
        return ()

    def key_reads(self, *, certain: bool) -> KeyReads:
        """What it reads beside its templates; where it is not `certain` to be used, a key may be missing."""
        return iter(())

    def chosen(self, names: Container[str], *, keep: bool) -> Part | None:
        """What is left of it when only sections with these names are kept, or left out."""
        return self if (self.names[0] in names) == keep else None

    def untagged(self) -> Part:
        """The same without the versions that its prompts were given."""
        return self

    def settled(self, state: Mapping[str, Any]) -> PromptSpec:
        """The prompt that it is in a state; see `rendering.settle`."""
        return PromptSpec(parts=(self,))

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """The part itself where a model rewrites it."""
        return ()

    def block(self, cut: Cut, state: Mapping[str, Any], written: Written) -> Block:
        """The pieces of its text in a state; see `rendering.segments_of`."""
        raise AssertionError(f"a settled prompt has no {self!r}")  # pragma: no mutate  # unreachable


@frozen
class Section(Part):
    """Text under a name: one of the standard sections, `template`, or a name of the user's."""

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
        """A line per key that is set; values are filled in later: no text in them is a placeholder."""
        pieces: list[Segment] = []
        for key in self.keys:
            if state.get(key) is not None:
                pieces += [*(["\n"] if pieces else []), f"{key.rpartition(':')[2]}: ", Placeholder(key)]
        return tuple(pieces)

    def __repr__(self) -> str:
        return f"P.from_state({', '.join(map(repr, self.keys))})"


@frozen
class When(Part):
    """A prompt that is there only if a predicate holds for the state."""

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
        return rendering.settle(self.then, state) if holds(self.test, state, "P.when") else PromptSpec()

    def __repr__(self) -> str:
        test = self.test
        key = repr(test.key) if isinstance(test, Match) and test.op == "truthy" else None
        return f"P.when({key or getattr(test, '__name__', repr(test))}, {self.then!r})"


@frozen
class Rewrite(Part):
    """A prompt as a model rewrites it.

    Attributes:
        source: the prompt that is rewritten.
        operation: `compress` shortens it, `adapt` fits it to an audience.
        model: a model name or a `BaseLlm`; `None` is the agent's own.
        max_tokens: for `compress`, how long it may be, at four characters a token.
        audience: for `adapt`, whom it is for.
        name: what filters call the result.
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

    def __repr__(self) -> str:
        options = {"max_tokens": self.max_tokens, "audience": self.audience or None, "model": self.model}
        given = ", ".join(f"{key}={value!r}" for key, value in options.items() if value is not None)
        return f"({self.source!r} | P.{self.operation}({given}))"


@frozen
class PromptSpec(InstructionSpec):
    """A prompt: what every `P` factory gives, and what `.instruct` takes.

    `a + b` has the parts of both; `p | P.only("task")` changes the arrangement. `str(p)` is the text of a
    static prompt, `{key}` placeholders included; `p.render(state)` fills them in.

    Attributes:
        parts: what it consists of, in order of appearance.
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
        """Both prompts as one; what they say twice, such as an order or a tag, the left one decides."""
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
        """This prompt, rearranged: by `P.only`, `P.without`, `P.reorder`, `P.compress` or `P.adapt`."""
        if not isinstance(arrangement, Arrangement):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            hint = " Join prompts with +." if isinstance(arrangement, PromptSpec) else ""
            raise ArgumentError(
                "| takes P.only, P.without, P.reorder, P.compress or P.adapt on its right, not "
                f"{type(arrangement).__name__}.{hint}"
            )
        return arrangement.apply(self)

    @property
    def static(self) -> bool:
        """Whether its text is the same in every run, but for `{key}` placeholders."""
        return not any(part.depends for part in self.parts)

    @property
    def needs_model(self) -> bool:
        """Whether a model must be asked for its text."""
        return any(part.needs_model for part in self.parts)

    def key_reads(self, *, certain: bool = True) -> KeyReads:
        """What its parts read beside its templates; under a condition a missing key may be meant."""
        for part in self.parts:
            yield from part.key_reads(certain=certain)

    @property
    def access(self) -> Access:
        """The state keys it reads, as far as that is known."""
        return _sum(part.access for part in self.parts) | _keys(*self.preambles, *self.postambles)

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts in it that every run uses; their placeholders must be filled."""
        return (*self.preambles, *(text for part in self.parts for text in part.templates), *self.postambles)

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of the sections it can have, each once, in order of appearance."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of what it says: the same for equal prompts in every process, whatever their tags."""
        from adk_fluent.ir.codec import value_hash

        return value_hash(_untagged(self))

    def render(self, state: Mapping[str, Any]) -> str:
        """The text in this state, placeholders filled.

        Raises:
            MissingKeyError: a placeholder without `?` names a key that is not set.
            ExpressionError: only a model can tell the text (see `resolve`), or it names an artifact.
        """
        return rendering.render(self, state)

    async def resolve(self, state: Mapping[str, Any], call_model: CallModel, fill: Fill | None = None) -> str:
        """The text in this state, a model being asked where `compress` or `adapt` say so.

        Args:
            call_model: asks the model; `None` as its answer leaves the text as it was.
            fill: fills placeholders instead of `render`, as for artifacts.
        """
        return await rendering.resolve(self, state, call_model, fill)

    def __str__(self) -> str:
        """The text of a static prompt, with its placeholders.

        Raises:
            ExpressionError: the text depends on the state.
        """
        if dynamic := [part for part in self.parts if part.depends]:
            raise ExpressionError(
                f"A prompt with {dynamic[0]!r:.60} depends on the state; use .render(state)."
            )
        return rendering.text_of(self)

    def __repr__(self) -> str:
        shown = " + ".join(map(repr, self.parts)) or "PromptSpec()"
        if self.order:
            shown = f"({shown}) | P.reorder({', '.join(map(repr, self.order))})"
        for before, after in zip_longest(reversed(self.preambles), self.postambles, fillvalue=""):
            shown = f"P.scaffolded({shown}, preamble={before!r}, postamble={after!r})"
        return f"P.versioned({shown}, tag={self.tag!r})" if self.tag else shown


@frozen
class Arrangement(Frozen):
    """What stands to the right of `|`: one thing done to a prompt.

    Attributes:
        operation: `only`, `without`, `reorder`, `compress` or `adapt`.
        names: the sections it is about, for the first three.
        options: parameters of the last two, as pairs.
    """

    operation: Literal["only", "without", "reorder", "compress", "adapt"]
    names: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def apply(self, prompt: PromptSpec) -> PromptSpec:
        """The prompt, rearranged.

        Raises:
            ExpressionError: it names a section that is neither a standard one nor in the prompt.
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
