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

Of each command, this is an example and what `--help` says.
"""
EXAMPLES: Final = {
    "demo": "adk-fluent demo --scripted",
    "run": 'adk-fluent run support.py:pipeline "My flight was cancelled." --state tier=gold',
    "worker": "adk-fluent worker support.py:pipeline --address temporal.example:7233 --tls",
    "check": "adk-fluent check support.py:pipeline --strict --sarif findings.sarif",
    "explain": "adk-fluent explain support.py:pipeline",
    "estimate": "adk-fluent estimate support.py:pipeline --invocations 1000 --branch biller=0.3",
    "convert": "adk-fluent convert my_agent -o pipeline.py --verify",
    "preview": 'adk-fluent preview support.py:pipeline "My flight was cancelled." --answer triage=booking',
    "viz": "adk-fluent viz support.py:pipeline -o pipeline.svg",
    "eval": "adk-fluent eval cases.yaml --pipeline support.py:pipeline --junit results.xml",
    "record": 'adk-fluent record support.py:pipeline "My flight was cancelled." -o run.json',
    "replay": "adk-fluent replay run.json support.py:pipeline --tools live",
    "diff": "adk-fluent diff before.json after.json --html diff.html",
    "serve": "adk-fluent serve support.py:pipeline --port 8080 --token-env A2A_TOKEN",
    "new": "adk-fluent new my_agent",
    "tide": "adk-fluent tide --json",
}
"""Command → how it is typed, for the page."""


def help_of(*words: str) -> str:
    """What the help says, without what it says of every command."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit), patch.dict(os.environ, COLUMNS="100"):
        main([*words, "--help"])
    return printed.getvalue().partition("\nTARGET is one of")[0].rstrip()


def page() -> str:
    """The page as it should be today."""
    commands = re.findall(r"^    ([a-z]+)  ", help_of(), re.MULTILINE)
    sections = (
        f"## {command}\n\n```console\n$ {EXAMPLES[command]}\n```\n\n```text\n{help_of(command)}\n```\n"
        for command in commands
    )
    return "\n".join([_BEGINNING, *sections])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
