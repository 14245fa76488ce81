"""Tools with which a model itself saves, loads and lists artifacts."""

from __future__ import annotations

from typing import Final, Literal

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access
from adk_fluent.ir.keys import ANY_FILE, ArtifactUse
from adk_fluent.tools.spec import ToolGroup, together

Kind = Literal["save", "load", "list"]

_NAMES: Final = {"save": "save_artifact", "load": "load_artifacts", "list": "list_artifacts"}


@frozen
class ArtifactTool(Frozen):
    """A tool that saves, loads or lists artifacts; the backend makes ADK's tool of it.

    Attributes:
        kind: `save`, `load` or `list`.
    """

    kind: Kind

    def __or__(self, other: object) -> ToolGroup:
        return together(self, other)

    def __ror__(self, other: object) -> ToolGroup:
        return together(other, self)

    @property
    def name(self) -> str:
        """The name that the model sees."""
        return _NAMES[self.kind]

    @property
    def access(self) -> Access:
        """The state keys that its calls read and write: none."""
        return NO_ACCESS

    @property
    def artifact_uses(self) -> tuple[ArtifactUse, ...]:
        """The possible uses of artifacts: of any artifact, because the model chooses the name."""
        if self.kind == "save":
            return (ArtifactUse("saves", ANY_FILE, certain=False),)
        return (ArtifactUse("reads", ANY_FILE, "optional", certain=False),) if self.kind == "load" else ()
