"""The `C` operations in which a helper model extracts data or facts, which are also written to state."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from adk_fluent.context.entries import Ask, Asking, Entries, Rejected, Result, Scene, show, text
from adk_fluent.context.model_operations import ModelOperation, synthetic
from adk_fluent.context.view import ContextView, Expected, Volume
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


class _Extraction(ModelOperation):
    """Base of the operations that replace a selection by a model's answer and write the answer to state."""

    __slots__ = ()
    makes: ClassVar[bool] = True

    into: str
    model: Any

    @property
    def prompt(self) -> str:
        """The start of the request; the conversation follows it."""
        return DISTILL

    def expected(self, given: Volume, answer: float) -> Expected:
        if given.tokens <= 0:
            return (), given
        requests = self.one_request(self.model, self.prompt, given.tokens, answer)
        return requests, Volume(0.0, question=given.question)  # the answer counts as a state value

    @property
    def own_writes(self) -> frozenset[str]:
        return frozenset({self.into})

    def surely_written(self, *, anything: bool) -> frozenset[str]:
        return self.own_writes if anything else frozenset()

    def view_after(self, given: ContextView) -> ContextView:
        return replace(given.some(unknown=True).beside([self.into]), holds_model_text=True)


@frozen
class Extract(_Extraction):
    """Data of a schema that a model finds in the conversation."""

    op: ClassVar[str] = "extract"

    schema: type[BaseModel]
    into: str
    model: Any

    @property
    def prompt(self) -> str:
        return EXTRACT + json.dumps(self.schema.model_json_schema(), sort_keys=True)

    def asking(self, entries: Entries, scene: Scene) -> Asking:
        from pydantic import ValidationError

        conversation = tuple(entry for entry in entries if entry.kind != "state")
        if not conversation:
            return entries, ()
        schema = self.schema
        answer = yield Ask(self.op, self.model, f"{self.prompt}\n\n{text(conversation)}", schema)
        if answer is None:
            return entries, ()
        try:
            found = schema.model_validate_json(_unfenced(str(answer)))
        except ValidationError as error:
            yield Rejected(self.op, f"the answer does not fit {schema.__name__}: {error.errors()[0]['type']}")
            return entries, ()
        return _replaced(entries, conversation, self.into, found.model_dump(mode="json"))


@frozen
class Distill(_Extraction):
    """The facts that a model finds in the conversation."""

    op: ClassVar[str] = "distill"

    into: str
    model: Any

    def asking(self, entries: Entries, scene: Scene) -> Asking:
        conversation = tuple(entry for entry in entries if entry.kind != "state")
        if not conversation:
            return entries, ()
        answer = yield Ask(self.op, self.model, f"{self.prompt}\n\n{text(conversation)}")
        return _replaced(entries, conversation, self.into, str(answer).strip()) if answer else (entries, ())


def _replaced(entries: Entries, conversation: Entries, into: str, value: object) -> Result:
    """Replace the entries `conversation` by the value that a model found in them, and write it to state."""
    answer = replace(synthetic(conversation), kind="state", author=into, text=show(value))
    return (*(entry for entry in entries if entry.kind == "state"), answer), ((into, value),)


def _unfenced(answer: str) -> str:
    inside, closing, _ = answer.partition("```")[2].partition("```")
    return inside.removeprefix("json").strip() if closing else answer
