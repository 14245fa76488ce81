"""The `C` operations that leave the conversation as it is: conditions, checks, notes and files beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from adk_fluent.context.entries import Scene, Selection, text
from adk_fluent.context.spec import Context
from adk_fluent.context.view import ContextView, any_of
from adk_fluent.errors import ContextError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import Access, access, function_name
from adk_fluent.ir.keys import ArtifactUse, KeyRead, declared
from adk_fluent.ir.predicates import Predicate, at_once, holds

if TYPE_CHECKING:
    from adk_fluent.context.entries import Selecting


@frozen
class ConditionalContext(Context):
    """A spec that applies only if a condition holds (`C.when`).

    Attributes:
        test: a function of the state, or a state key that must be set and true.
    """

    op: ClassVar[str] = "when"
    wraps: ClassVar[bool] = True

    test: Predicate | str

    @property
    def spec(self) -> Context:
        """The spec under the condition."""
        return self.parts[0]

    def resolved(self, state: Mapping[str, Any], agent: str = "") -> Context | None:
        applies = (
            bool(state.get(self.test))
            if isinstance(self.test, str)
            else holds(self.test, state, "C.when", agent)
        )
        return self.spec.resolved(state, agent) if applies else None

    @property
    def ways(self) -> frozenset[bool]:
        return self.spec.ways

    @property
    def may_vanish(self) -> bool:
        return True

    @property
    def is_untouched(self) -> bool:
        return self.spec.is_untouched

    @property
    def only_adds(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is the same for any condition
        return self.spec.only_adds

    def view_after(self, given: ContextView) -> ContextView:
        return any_of([self.spec.view_after(given), given]).perhaps()

    def view_when_piped(self, given: ContextView) -> ContextView:
        if self.only_adds:
            return self.spec.view_when_piped(given)
        return any_of([self.spec.view_when_piped(given), given]).perhaps()

    def view_in_sum(self, given: ContextView) -> ContextView:
        return self.spec.view_in_sum(given).perhaps()

    def _touched(self) -> Access:
        if isinstance(self.test, str):
            return Access(frozenset({self.test}))
        read = access(self.test)
        return Access(read.reads, reads_known=read.reads_known)

    def own_reads(self) -> tuple[KeyRead, ...]:
        inner = self.spec.access.reads
        tests = [] if isinstance(self.test, str) else [self.test]
        own = {read.key: read for read in declared(tests, "function", "tolerant")}
        keys = sorted(self.touches.reads - inner)
        return tuple(own.get(key) or KeyRead(key, "function", "tolerant") for key in keys)

    def key_reads(self, *, certain: bool = True) -> Iterator[KeyRead]:
        return Context.key_reads(self, certain=False)

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        return tuple(use._replace(level="tolerant", certain=False) for use in self.spec.artifacts)

    def surely_written(self, *, anything: bool) -> frozenset[str]:
        return frozenset()


@frozen
class ValidateContext(Context):
    """Raises an error before the model is called, unless every check of the context's text holds."""

    op: ClassVar[str] = "validate"
    spread: ClassVar[str] = "checks"

    checks: tuple[Callable[[str], bool], ...]

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        yield from ()
        message = tuple(entry for entry in given.pinned if entry.is_user_message)
        seen = text((*given.entries, *message))
        for check in self.checks:
            name = function_name(check, "<lambda>")
            if not at_once(check(seen), f"{scene.agent!r}: its check {name!r} in C.validate", "C.validate"):
                raise ContextError(
                    f"Agent {scene.agent!r}: C.validate({name}) refuses its context, "
                    "so its model is not called."
                )
        return given


@frozen
class WriteNotes(Context):
    """Writes the agent's answer to a scratchpad, a state key; the agent's context does not change."""

    op: ClassVar[str] = "write_notes"

    key: str
    strategy: str

    def own_reads(self) -> tuple[KeyRead, ...]:
        return (KeyRead(self.key, "function", "optional"),) if self.strategy == "append" else ()

    @property
    def own_writes(self) -> frozenset[str]:
        return frozenset({self.key})

    def surely_written(self, *, anything: bool) -> frozenset[str]:
        return self.own_writes

    def noted(self, state: Mapping[str, Any], answer: str) -> dict[str, str]:
        before = state.get(self.key)
        kept = [str(before)] if before and self.strategy == "append" else []
        return {self.key: "\n".join([*kept, answer])}


@frozen
class ForLlm(Context):
    """Sends an artifact to the model; the selection of the conversation does not change."""

    op: ClassVar[str] = "for_llm"
    namespace: ClassVar[str] = "A"

    filename: str

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        yield from ()
        return replace(given, files=tuple(dict.fromkeys((*given.files, self.filename))))

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        return (ArtifactUse("reads", self.filename),)

    def _arguments(self) -> list[str]:
        return [repr(self.filename)]
