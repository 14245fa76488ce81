"""`Context`: what part of the conversation an agent sees, as a frozen value.

Every operation of `C` is one class below `Context`, which says all there is to say about it: what it means,
which state keys it reads and writes, what it may show, whether it asks a model, and how it is written down.
They are in `sources`, `filters`, `model_operations`, `making`, `control`, `artifacts` and `joining`;
`operations` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import ContextSpec
from adk_fluent.ir.files import ArtifactUse
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name, source_unread
from adk_fluent.ir.keys import KeyRead, KeyReads

if TYPE_CHECKING:
    from adk_fluent.context.asking import Expected, Question, Selecting, Volume
    from adk_fluent.context.control import WriteNotes
    from adk_fluent.context.entries import Entries, Scene, Selection
    from adk_fluent.context.view import View


@frozen
class Context(ContextSpec):
    """Which part of the conversation an agent sees; made by the factories of `C`.

    `a + b` sees what either of them selects; `a | b` passes what `a` selects through `b`. A filter that
    stands in a `+` without a selection of its own (`C.window(3) + C.redact("x")`) filters the whole sum. Both
    operators are associative, and `a + a` is `a`.

    What is said here holds for an operation that leaves what is seen as it is; the others say what differs.

    Attributes:
        contents: whether the selection reaches the model as real messages; see `as_contents`.
        parts: the specs that it joins or wraps.

    Example:
        >>> from adk_fluent import C
        >>> C.window(n=3) + C.from_state("topic")
        C.window(n=3) + C.from_state('topic')
    """

    __slots__ = ("_access", "_touches")

    op: ClassVar[str] = ""
    """Its name, as its factory has it; `sum` and `pipe` join their parts."""
    namespace: ClassVar[str] = "C"
    """Where that factory is."""
    is_default: ClassVar[bool] = False
    """Whether it asks for what ADK does anyway."""
    only_adds: ClassVar[bool] = False
    """Whether it shows values of the state: alone in place of the conversation, in a pipe beside it."""
    makes: ClassVar[bool] = False
    """Whether what it writes is made of the conversation, before its agent is asked."""
    wraps: ClassVar[bool] = False
    """Whether it has parts."""
    spread: ClassVar[str] = ""
    """The parameter whose items stand in brackets by themselves, where it is written down."""

    _: KW_ONLY
    contents: bool = False
    parts: tuple[Context, ...] = ()

    @property
    def params(self) -> tuple[tuple[str, Any], ...]:
        """Its own parameters, by name."""
        return tuple((name, getattr(self, name)) for name in self._positional)

    # --- what it means ----------------------------------------------------------------------------

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        """What it leaves of a selection; yields each question to a helper model and is sent the answer."""
        yield from ()
        return given

    def piped(self, given: Selection, scene: Scene) -> Selecting:
        """The same where it stands behind a `|`."""
        return self.applied(given, scene)

    def resolved(self, state: Mapping[str, Any], agent: str = "") -> Context | None:
        """The spec without its conditions: a `C.when` that does not hold is as if it were not there.

        Raises:
            PredicateError: a condition raised, or must be awaited; it names `agent`.
        """
        if not self.parts:
            return self
        parts = tuple(part for each in self.parts if (part := each.resolved(state, agent)) is not None)
        return self.replace(parts=parts) if parts else None

    def delivered(self, chosen: Selection) -> tuple[Entries, Entries]:
        """What of a selection stands in the block of the instruction, and what is sent as messages."""
        return (chosen.shown, chosen.conversation) if self.contents else (chosen.entries, ())

    # --- what is known of it before it runs -------------------------------------------------------

    @property
    def ways(self) -> frozenset[bool]:
        """Whether it says by itself what is seen, for each way its conditions may turn out."""
        return _FILTERS

    @property
    def is_selection(self) -> bool:
        """Whether it says by itself what is seen; a filter alone filters the whole conversation."""
        return True in self.ways

    @property
    def may_vanish(self) -> bool:
        """Whether conditions may leave nothing of it."""
        return False

    @property
    def always_selects(self) -> bool:
        """Whether it says what is seen in any case, whatever conditions it has."""
        return self.ways == SELECTS and not self.may_vanish

    @property
    def is_untouched(self) -> bool:
        """Whether the conversation always stays as ADK assembles it."""
        return True

    @property
    def asks(self) -> bool:
        """Whether it may ask a helper model."""
        return any(part.asks for part in self.parts)

    def expected(self, given: Volume, answer: float) -> Expected:
        """What it probably asks helper models, and leaves of what it is given.

        Args:
            answer: tokens of what a model usually answers.
        """
        questions: tuple[Question, ...] = ()
        for part in self.parts:
            asked, given = part.expected(given, answer)
            questions += asked
        return questions, given

    @property
    def drops_calls(self) -> bool:
        """Whether it keeps only other parts of each event than tool calls."""
        return False

    @property
    def tells_calls(self) -> bool:
        """Whether it may put tool calls into words, which then pass where calls do not."""
        return any(part.tells_calls for part in self.parts)

    @property
    def seen_in_words(self) -> str:
        """What an agent sees, where words say it better than its view; empty where they do not."""
        return ""

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts in it whose placeholders are filled."""
        return tuple(text for part in self.parts for text in part.templates)

    def sees(self, given: View) -> View:
        """What it lets an agent see of what it is given."""
        return given

    def sees_piped(self, given: View) -> View:
        """The same where it stands behind a `|`."""
        return self.sees(given)

    def sees_in_sum(self, given: View) -> View:
        """What it adds to a `+`."""
        return self.sees(given)

    def view(self) -> View:
        """What it lets an agent see, as far as that is known before it runs."""
        from adk_fluent.context.view import view

        return view(self)

    # --- the state ---------------------------------------------------------------------------------

    def own_reads(self) -> tuple[KeyRead, ...]:
        """The state keys that this operation itself reads."""
        return ()

    @property
    def own_writes(self) -> frozenset[str]:
        """The state keys that this operation itself writes."""
        return frozenset()

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        """The artifacts that it shows."""
        return tuple(use for part in self.parts for use in part.artifacts)

    @property
    def touches(self) -> Access:
        """The state keys that this operation itself touches."""
        return _kept(self, "_touches", self._touched)

    @property
    def access(self) -> Access:
        """The state keys it reads and writes, as far as that is known."""
        return _kept(self, "_access", self._accessed) if self.parts else self.touches

    def _touched(self) -> Access:
        reads, writes = self.own_reads(), self.own_writes
        return Access(frozenset(read.key for read in reads), writes) if reads or writes else NO_ACCESS

    def _accessed(self) -> Access:
        total = self.touches
        for part in self.parts:
            total |= part.access
        return total

    def key_reads(self, *, certain: bool = True) -> KeyReads:
        """The state keys it reads, in order.

        Args:
            certain: whether no condition decides about it; under one, a missing key may be meant.
        """
        for read in self.own_reads():
            yield read if certain or read.level != "required" else read._replace(level="tolerant")
        for part in self.parts:
            yield from part.key_reads(certain=certain)

    @property
    def made(self) -> frozenset[str]:
        """The state keys it may write before its agent is asked: what it makes of the conversation."""
        if not self.access.writes:
            return frozenset()
        own = self.own_writes if self.makes else frozenset[str]()
        return own.union(*(part.made for part in self.parts))

    def surely_written(self, *, anything: bool) -> frozenset[str]:
        """The state keys it writes whenever its agent answers.

        Args:
            anything: whether there is something in the conversation; of nothing, nothing is extracted.

        >>> from adk_fluent import C
        >>> (C.write_notes("pad") + C.distill(into="facts")).surely_written(anything=False)
        frozenset({'pad'})
        """
        found = frozenset[str]()
        whole = anything and all(part.is_untouched for part in self.parts if not part.makes)
        for part in self.parts:
            found |= part.surely_written(anything=whole)
            whole = whole and not part.made  # what it makes takes the place of the conversation
        return found

    @property
    def scratchpads(self) -> tuple[WriteNotes, ...]:
        """What in it writes the agent's answer to state."""
        return tuple(pad for part in self.parts for pad in part.scratchpads)

    # --- how it is made and written down -----------------------------------------------------------

    def as_contents(self) -> Context:
        """The same selection as real messages instead of text in the instruction.

        What is selected of the conversation reaches the model as ADK would send it: in the roles of user and
        model, with images, files and tool calls. State values stay in the instruction.
        """
        return self.replace(contents=True)

    def __add__(self, other: Context) -> Context:
        from adk_fluent.context.joining import added

        return added(self, _checked(other, "+"))

    def __or__(self, other: Context) -> Context:
        from adk_fluent.context.joining import piped

        return piped(self, _checked(other, "|"))

    def __repr__(self) -> str:
        call = f"{self.namespace}.{self.op}({', '.join(self._arguments())})"
        return call + ".as_contents()" * self.contents

    def _arguments(self) -> list[str]:
        shown: list[str] = []
        for name, value in self.params:
            if name == self.spread:
                shown += [short(item) for item in cast("tuple[object, ...]", value)]
            elif value is not None:
                shown.append(f"{name}={short(value)}")
        return shown + [repr(part) for part in self.parts]

    def as_stored(self) -> Frozen:
        """Every operation is stored under its name, as the first release did it."""
        values = {name: self.given[name] for name in ("parts", "contents") if name in self.given}
        with source_unread():
            touched = self._touched()
        return Stored(op=self.op, params=self.params, touches=touched, **values)

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Frozen:
        """The operation that was stored so; what it touches it says itself."""
        from adk_fluent.context.operations import OPERATIONS

        held = Stored(**values)
        made = OPERATIONS.get(held.op)
        if made is None:
            raise ValueError(f"there is no context operation {held.op!r}")
        specs = all(isinstance(part, Context) for part in held.parts)  # pyright: ignore[reportUnnecessaryIsInstance]  # values come from a file
        if not specs or bool(held.parts) != made.wraps:
            raise TypeError(f"a context operation {held.op!r} has other parts")
        return made(**dict(held.params), parts=held.parts, contents=held.contents)


@frozen
class Stored(Frozen):
    """A spec as stored graphs hold it: the name of an operation with its parameters."""

    stored_as: ClassVar[type | None] = Context

    op: str
    params: tuple[tuple[str, Any], ...] = ()
    parts: tuple[Context, ...] = ()
    contents: bool = False
    touches: Access = NO_ACCESS


SELECTS: Final = frozenset({True})
"""The ways of what always says by itself what is seen."""
_FILTERS: Final = frozenset({False})


def _kept(spec: Context, slot: str, find: Any) -> Access:
    """An access that is found once for each spec, as its hash is."""
    try:
        return cast(Access, object.__getattribute__(spec, slot))
    except AttributeError:
        found: Access = find()
        object.__setattr__(spec, slot, found)
        return found


def short(value: object) -> str:
    """A parameter as it is written: a function by its name."""
    return function_name(value, "<lambda>") if callable(value) else repr(value)


def _checked(other: object, sign: str) -> Context:
    if isinstance(other, Context):
        return other
    raise ArgumentError(
        f"{sign} joins two C specs, not a C spec and {type(other).__name__} {other!r:.40}. "
        "A spec belongs to an agent: Agent(...).context(C...)."
    )
