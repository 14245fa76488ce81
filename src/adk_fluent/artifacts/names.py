"""Names of artifacts: what ADK calls them, the keys that go with them, and names that the state fills in."""

from __future__ import annotations

from adk_fluent.errors import ArtifactError, MissingKeyError
from adk_fluent.ir.files import ANY_FILE, USER_SCOPE, ArtifactUse, Use
from adk_fluent.ir.keys import KeyRead, KeyReads, Level
from adk_fluent.ir.matching import StateView, lost
from adk_fluent.ir.template import Placeholder, placeholders, render


def stem(filename: str) -> str:
    """The name of a file without its scope, its folders and its ending.

    >>> stem("user:reports/draft.md"), stem("notes")
    ('draft', 'notes')
    """
    last = filename.removeprefix(USER_SCOPE).rpartition("/")[2]
    return last.rpartition(".")[0] or last


def fault_of(filename: str) -> str:
    """What is wrong with the name of an artifact, as the end of a sentence; empty for nothing.

    >>> fault_of("user:"), fault_of("../secrets"), fault_of("a/b.md")
    ('is empty', 'leads out of its folder', '')
    """
    bare = filename.removeprefix(USER_SCOPE)
    if not bare.strip():
        return "is empty"
    if not bare.isprintable():
        return "has a character that cannot be printed"
    parts = bare.replace("\\", "/").split("/")
    if ".." in parts or parts[0] == "":
        return "leads out of its folder"
    return ""


def named(filename: str, state: StateView, asking: str) -> str:
    """The name of an artifact, its placeholders filled from the state.

    Args:
        asking: who needs it, for messages.

    Raises:
        MissingKeyError: a key that the name needs is not set.
        ArtifactError: what came of it is no name of an artifact.
    """
    if "{" not in filename:
        return filename

    def value(placeholder: Placeholder) -> str:
        found = state.get(placeholder.key)
        if found is None and not placeholder.optional:
            raise MissingKeyError(
                f"{asking} needs state key {placeholder.key!r} for the name {filename!r}, and it is not set."
                + (lost(state, placeholder.key) or " Write it before.")
            )
        return "" if found is None else str(found)

    made = render(filename, value)
    if fault := fault_of(made):
        raise ArtifactError(f"{asking}: {filename!r} became {made!r:.80}, which {fault}.")
    return made


def name_reads(*filenames: str) -> KeyReads:
    """The state keys that names need."""
    for filename in filenames:
        for placeholder in placeholders(filename) if "{" in filename else ():
            yield KeyRead(placeholder.key, "artifact", "optional" if placeholder.optional else "required")


def used(how: Use, filename: str, level: Level = "required") -> ArtifactUse:
    """What is done with an artifact, by its name or, where only a run tells that, with any."""
    return ArtifactUse(how, ANY_FILE if "{" in filename and placeholders(filename) else filename, level)
