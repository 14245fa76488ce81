"""Tools by which a model itself saves, loads and lists artifacts."""

from __future__ import annotations

from typing import Final, Literal

from adk_fluent.ir.files import ANY_FILE, ArtifactUse
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access
from adk_fluent.tools.spec import Together, together

Kind = Literal["save", "load", "list"]

_NAMES: Final = {"save": "save_artifact", "load": "load_artifacts", "list": "list_artifacts"}


@frozen
class ArtifactTool(Frozen):
    """One of these tools; a backend makes a real one of it.

    Attributes:
        kind: what it does.
    """

    kind: Kind

    def __or__(self, other: object) -> Together:
        return together(self, other)

    def __ror__(self, other: object) -> Together:
        return together(other, self)

    @property
    def name(self) -> str:
        """The name under which a model sees it."""
        return _NAMES[self.kind]

    @property
    def access(self) -> Access:
        """It touches no state."""
        return NO_ACCESS

    @property
    def artifact_uses(self) -> tuple[ArtifactUse, ...]:
        """What it may do with which artifacts: the model says."""
        if self.kind == "save":
            return (ArtifactUse("saves", ANY_FILE, certain=False),)
        return (ArtifactUse("reads", ANY_FILE, "optional", certain=False),) if self.kind == "load" else ()
