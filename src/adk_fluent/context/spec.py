"""`Context`: the part of the conversation that an agent sees, as a frozen value.

Every operation of `C` is one subclass of `Context`. It declares how it changes a selection, which state keys
it reads and writes, what it may show, whether it asks a helper model, and its stored form. The subclasses are
in `sources`, `filters`, `model_operations`, `extraction`, `control` and `composition`; `operations` lists
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import ContextSpec
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access, function_name, source_unread
from adk_fluent.ir.keys import ArtifactUse, KeyRead, KeyReads

if TYPE_CHECKING:
    from adk_fluent.context.entries import Entries, Scene, Selecting, Selection
    from adk_fluent.context.view import ContextView, Expected, ExpectedRequest, Volume


@frozen
class Context(ContextSpec):
    """The part of the conversation that an agent sees; the factories of `C` make it.

    `a + b` selects what `a` or `b` selects; `a | b` passes the selection of `a` through `b`. A filter that is
    added with `+` (`C.window(3) + C.redact("x")`) filters the whole sum. Both operators are associative, and
    `a + a` is `a`.

    The methods of this class fit an operation that leaves the selection as it is; subclasses override them.

    Attributes:
        contents: True if the selection reaches the model as real messages; see `as_contents`.
        parts: the specs that it joins or wraps.

    Example:
        >>> from adk_fluent import C
        >>> C.window(n=3) + C.from_state("topic")
        C.window(n=3) + C.from_state('topic')
    """

    __slots__ = ("_access", "_touches")

    op: ClassVar[str] = ""
    """The name of its factory; `sum` and `pipe` are the names of `+` and `|`."""
    namespace: ClassVar[str] = "C"
    """The namespace of that factory."""
    is_default: ClassVar[bool] = False
    """True if it selects what ADK sends anyway."""
    only_adds: ClassVar[bool] = False
    """True if it shows state values: alone in place of the conversation, in a pipe beside it."""
    makes: ClassVar[bool] = False
    """True if it makes a state value of the conversation before its agent's model is called."""
    wraps: ClassVar[bool] = False
    """True if it has parts."""
    spread: ClassVar[str] = ""
    """The parameter whose items its `repr` shows as separate arguments."""

    _: KW_ONLY
    contents: bool = False
    parts: tuple[Context, ...] = ()

    @property
    def params(self) -> tuple[tuple[str, Any], ...]:
        """Its own parameters, as pairs of name and value."""
        return tuple((name, getattr(self, name)) for name in self._positional)

    # --- its effect on a selection ----------------------------------------------------------------

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        """Apply it to a selection: yield each request to a helper model, receive the answer."""
        yield from ()
        return given

    def piped(self, given: Selection, scene: Scene) -> Selecting:
        """Apply it to the selection on the left of a `|`."""
        return self.applied(given, scene)

    def resolved(self, state: Mapping[str, Any], agent: str = "") -> Context | None:
        """Decide its conditions: leave out each `C.when` that does not hold.

        Args:
            agent: the agent that an error names.

        Returns:
            The spec without conditions; `None` if nothing is left.

        Raises:
            PredicateError: a condition raised, or must be awaited.
        """
        if not self.parts:
            return self
        parts = tuple(part for each in self.parts if (part := each.resolved(state, agent)) is not None)
        return self.replace(parts=parts) if parts else None

    def delivered(self, chosen: Selection) -> tuple[Entries, Entries]:
        """Divide a selection in entries for the instruction, and entries to send as messages."""
        return (chosen.shown, chosen.conversation) if self.contents else (chosen.entries, ())

    # --- facts before a run -----------------------------------------------------------------------

    @property
    def ways(self) -> frozenset[bool]:
        """The possible values of `is_selection`, one for each outcome of its conditions."""
        return _FILTERS

    @property
    def is_selection(self) -> bool:
        """True if it selects by itself; a filter alone filters the whole conversation."""
        return True in self.ways

    @property
    def may_vanish(self) -> bool:
        """True if its conditions may leave nothing of it."""
        return False

    @property
    def always_selects(self) -> bool:
        """True if it selects by itself, whatever its conditions are."""
        return self.ways == SELECTS and not self.may_vanish

    @property
    def is_untouched(self) -> bool:
        """True if the conversation always stays as ADK assembles it."""
        return True

    @property
    def asks(self) -> bool:
        """True if it may ask a helper model."""
        return any(part.asks for part in self.parts)

    def expected(self, given: Volume, answer: float) -> Expected:
        """Estimate its requests to helper models, and the size of the remaining conversation.

        Args:
            given: the size of the conversation that it receives.
            answer: tokens of a model's usual answer.
        """
        found: tuple[ExpectedRequest, ...] = ()
        for part in self.parts:
            requests, given = part.expected(given, answer)
            found += requests
        return found, given

    @property
    def drops_calls(self) -> bool:
        """True if it removes the tool calls from each event."""
        return False

    @property
    def writes_calls_as_text(self) -> bool:
        """True if it may write tool calls as text, which later filters for calls do not remove."""
        return any(part.writes_calls_as_text for part in self.parts)

    @property
    def seen_in_words(self) -> str:
        """A description for reports if it is clearer than the view; else empty."""
        return ""

    @property
    def templates(self) -> tuple[str, ...]:
        """Its texts with placeholders, which are filled from state."""
        return tuple(text for part in self.parts for text in part.templates)

    def view_after(self, given: ContextView) -> ContextView:
        """The view after this operation, applied to the view `given`."""
        return given

    def view_when_piped(self, given: ContextView) -> ContextView:
        """The view after this operation on the right of a `|`."""
        return self.view_after(given)

    def view_in_sum(self, given: ContextView) -> ContextView:
        """The view that it adds to a sum (`+`)."""
        return self.view_after(given)

    def view(self) -> ContextView:
        """The part of the conversation that it shows, as far as it is known before a run.

        >>> from adk_fluent import C
        >>> C.from_agents("critic").view().may_see("writer")
        False
        """
        from adk_fluent.context.view import ALL

        seen = self.view_after(ALL)
        whole = seen.history == "all" and self.is_untouched
        files = seen.history != "none" and (whole or self.contents)
        return replace(seen, files=files, as_contents=self.contents)

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
        """The artifacts that it sends to the model."""
        return tuple(use for part in self.parts for use in part.artifacts)

    @property
    def touches(self) -> Access:
        """The state keys that this operation itself reads and writes, without its parts."""
        return _kept(self, "_touches", self._touched)

    @property
    def access(self) -> Access:
        """The state keys that it and its parts read and write, as far as they are known."""
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
        """The state keys that it reads, in order.

        Args:
            certain: False if a condition decides about it; then a missing key is no error.
        """
        for read in self.own_reads():
            yield read if certain or read.level != "required" else read._replace(level="tolerant")
        for part in self.parts:
            yield from part.key_reads(certain=certain)

    @property
    def extracted_keys(self) -> frozenset[str]:
        """The state keys that it may write before its agent's model is called (`C.extract`, `C.distill`)."""
        if not self.access.writes:
            return frozenset()
        own = self.own_writes if self.makes else frozenset[str]()
        return own.union(*(part.extracted_keys for part in self.parts))

    def surely_written(self, *, anything: bool) -> frozenset[str]:
        """The state keys that it writes whenever its agent answers.

        Args:
            anything: True if the conversation is not empty; from an empty one, nothing is extracted.

        >>> from adk_fluent import C
        >>> (C.write_notes("pad") + C.distill(into="facts")).surely_written(anything=False)
        frozenset({'pad'})
        """
        found = frozenset[str]()
        whole = anything and all(part.is_untouched for part in self.parts if not part.makes)
        for part in self.parts:
            found |= part.surely_written(anything=whole)
            whole = whole and not part.extracted_keys  # the value that it makes replaces the conversation
        return found

    def noted(self, state: Mapping[str, Any], answer: str) -> dict[str, str]:
        """The scratchpads that it writes after its agent's answer: state key → new content.

        Args:
            state: the state before the answer.
        """
        return {key: notes for part in self.parts for key, notes in part.noted(state, answer).items()}

    # --- how it is made and written down -----------------------------------------------------------

    def as_contents(self) -> Context:
        """Send the selection as real messages instead of text in the instruction.

        The selected events reach the model as ADK would send them: in the roles of user and model, with
        images, files and tool calls. State values stay in the instruction.
        """
        return self.replace(contents=True)

    def __add__(self, other: Context) -> Context:
        from adk_fluent.context.composition import added

        return added(self, _checked(other, "+"))

    def __or__(self, other: Context) -> Context:
        from adk_fluent.context.composition import piped

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
        """The stored form, the same as in the first release: the operation's name and parameters."""
        values = {name: self.given[name] for name in ("parts", "contents") if name in self.given}
        with source_unread():
            touched = self._touched()
        return Stored(op=self.op, params=self.params, touches=touched, **values)

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Frozen:
        """Restore an operation from its stored form; its class declares the keys that it touches.

        Raises:
            ValueError: `C` has no operation of that name.
            TypeError: the stored parts do not fit the operation.
        """
        from adk_fluent.context.selection import OPERATIONS

        stored = Stored(**values)
        operation = OPERATIONS.get(stored.op)
        if operation is None:
            raise ValueError(f"there is no context operation {stored.op!r}")
        specs = all(isinstance(part, Context) for part in stored.parts)  # pyright: ignore[reportUnnecessaryIsInstance]  # values come from a file
        if not specs or bool(stored.parts) != operation.wraps:
            raise TypeError(f"a context operation {stored.op!r} has other parts")
        return operation(**dict(stored.params), parts=stored.parts, contents=stored.contents)


@frozen
class Stored(Frozen):
    """The stored form of a spec: the name of its operation, its parameters and its parts."""

    stored_as: ClassVar[type | None] = Context

    op: str
    params: tuple[tuple[str, Any], ...] = ()
    parts: tuple[Context, ...] = ()
    contents: bool = False
    touches: Access = NO_ACCESS


SELECTS: Final = frozenset({True})
"""The `ways` of an operation that always selects by itself."""
_FILTERS: Final = frozenset({False})


def _kept(spec: Context, slot: str, find: Any) -> Access:
    """Return an access, computed once for each spec and kept in its slot, like the hash."""
    try:
        return cast(Access, object.__getattribute__(spec, slot))
    except AttributeError:
        found: Access = find()
        object.__setattr__(spec, slot, found)
        return found


def short(value: object) -> str:
    """The `repr` of a parameter; for a function its name."""
    return function_name(value, "<lambda>") if callable(value) else repr(value)


def _checked(other: object, sign: str) -> Context:
    if isinstance(other, Context):
        return other
    raise ArgumentError(
        f"{sign} joins two C specs, not a C spec and {type(other).__name__} {other!r:.40}. "
        "A spec belongs to an agent: Agent(...).context(C...)."
    )
