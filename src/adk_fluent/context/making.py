"""The `C` operations in which a model makes something of the conversation, which is also written to state."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from adk_fluent.context.asking import Ask, Asking, Expected, Rejected, Result, Volume
from adk_fluent.context.entries import Entries, Scene
from adk_fluent.context.model_operations import Asked, synthetic
from adk_fluent.context.rendering import show, text
from adk_fluent.context.view import View
from adk_fluent.ir.frozen import frozen

if TYPE_CHECKING:
    from pydantic import BaseModel

DISTILL: Final = (
    "List the facts that the conversation below establishes, one per line, each understandable by itself. "
    "Leave out everything that is not a fact. Answer with the list alone."
)
EXTRACT: Final = (
    "Extract the data that the conversation below holds. Answer with JSON of this schema alone:\n"
)


class _Making(Asked):
    """What a model makes of a selection, in its place; also written to state."""

    __slots__ = ()
    makes: ClassVar[bool] = True

    into: str
    model: Any

    @property
    def prompt(self) -> str:
        """What stands before the conversation in its question."""
        return DISTILL

    def expected(self, given: Volume, answer: float) -> Expected:
        if given.tokens <= 0:
            return (), given
        asked = self.asked_once(self.model, self.prompt, given.tokens, answer)
        return asked, Volume(0.0, question=given.question)  # what it makes is shown as a state value

    @property
    def own_writes(self) -> frozenset[str]:
        return frozenset({self.into})

    def surely_written(self, *, anything: bool) -> frozenset[str]:
        return self.own_writes if anything else frozenset()

    def sees(self, given: View) -> View:
        return replace(given.some(unknown=True).beside([self.into]), made=True)


@frozen
class Extract(_Making):
    """Data that a model finds."""

    op: ClassVar[str] = "extract"

    schema: type[BaseModel]
    into: str
    model: Any

    @property
    def prompt(self) -> str:
        return EXTRACT + json.dumps(self.schema.model_json_schema(), sort_keys=True)

    def asking(self, entries: Entries, scene: Scene) -> Asking:
        from pydantic import ValidationError

        said = tuple(entry for entry in entries if entry.kind != "state")
        if not said:
            return entries, ()
        schema = self.schema
        answer = yield Ask(self.op, self.model, f"{self.prompt}\n\n{text(said)}", schema)
        if answer is None:
            return entries, ()
        try:
            found = schema.model_validate_json(_unfenced(str(answer)))
        except ValidationError as error:
            yield Rejected(self.op, f"the answer does not fit {schema.__name__}: {error.errors()[0]['type']}")
            return entries, ()
        return _replaced(entries, said, self.into, found.model_dump(mode="json"))


@frozen
class Distill(_Making):
    """The facts that a model finds."""

    op: ClassVar[str] = "distill"

    into: str
    model: Any

    def asking(self, entries: Entries, scene: Scene) -> Asking:
        said = tuple(entry for entry in entries if entry.kind != "state")
        if not said:
            return entries, ()
        answer = yield Ask(self.op, self.model, f"{self.prompt}\n\n{text(said)}")
        return _replaced(entries, said, self.into, str(answer).strip()) if answer else (entries, ())


def _replaced(entries: Entries, said: Entries, into: str, value: object) -> Result:
    """What was found stands for what it was found in, and is written to state."""
    made = replace(synthetic(said), kind="state", author=into, text=show(value))
    return (*(entry for entry in entries if entry.kind == "state"), made), ((into, value),)


def _unfenced(answer: str) -> str:
    inside, closing, _ = answer.partition("```")[2].partition("```")
    return inside.removeprefix("json").strip() if closing else answer
