"""The README as a registry shows it: far from the repository, so with whole addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\])\((?!https?:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Gives the project its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme to the metadata."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        shown = absolute(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def absolute(text: str, repository: str) -> str:
    """A Markdown text with the links and pictures that are relative to its repository made absolute."""

    def whole(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        place = "raw" if mark else "blob"
        return f"{mark}{absolute(words, repository)}({repository}/{place}/main/{target})"

    return _LINK.sub(whole, text)
