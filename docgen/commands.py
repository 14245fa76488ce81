"""The page of the command line, made of what `--help` says: `python -m docgen.commands` writes it anew."""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Final
from unittest.mock import patch

from adk_fluent.cli import main

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "command-line.md"
_BEGINNING: Final = """# Command line

`adk-fluent COMMAND`, or `python -m adk_fluent COMMAND`. Exit codes: 0 fine, 1 the run failed or the check
found errors, 2 wrong usage, 130 interrupted. `TARGET` is `module:attr`, `path/file.py:attr`, or an agent
folder as `adk web` opens it.

This is what `--help` says of each command.
"""


def help_of(*words: str) -> str:
    """What the help says, without what it says of every command."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit), patch.dict(os.environ, COLUMNS="100"):
        main([*words, "--help"])
    return printed.getvalue().partition("\nTARGET is one of")[0].rstrip()


def page() -> str:
    """The page as it should be today."""
    commands = re.findall(r"^    ([a-z]+)  ", help_of(), re.MULTILINE)
    sections = (f"## {command}\n\n```text\n{help_of(command)}\n```\n" for command in commands)
    return "\n".join([_BEGINNING, *sections])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
