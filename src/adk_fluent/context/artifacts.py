"""An artifact in an agent's context."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from adk_fluent.context.entries import Scene, Selection
from adk_fluent.context.spec import Context
from adk_fluent.ir.files import ArtifactUse
from adk_fluent.ir.frozen import frozen

if TYPE_CHECKING:
    from adk_fluent.context.asking import Selecting


@frozen
class ForLlm(Context):
    """Sends an artifact along; what is seen of the conversation stays as it is."""

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
