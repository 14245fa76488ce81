"""What releases need of CHANGELOG.md: that it has a section for the version, and an entry for each change.

python .ci/changelog.py version       the version of the package
python .ci/changelog.py notes         its section; exit code 1 if it cannot be released like this
python .ci/changelog.py since REF     exit code 1 if the package changed since REF and the changelog did not
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "src/adk_fluent/"
CHANGELOG = "CHANGELOG.md"


def version(root: Path) -> str:
    """The version that the package says it has."""
    source = (root / PACKAGE / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    return found[1] if found else ""


def sections(text: str) -> dict[str, str]:
    """Heading → text of each section of a changelog."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return {heading.strip(): body.strip() for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def notes(root: Path) -> str:
    """The section of the version that is to be released.

    Raises:
        SystemExit: there is none, it has no day, or something else does not agree with it.
    """
    number = version(root)
    found = sections((root / CHANGELOG).read_text(encoding="utf-8"))
    if found.get("Unreleased"):
        raise SystemExit(f"{CHANGELOG}: what is under Unreleased belongs under '## {number} - YYYY-MM-DD'")
    heading = re.compile(rf"{re.escape(number)} - \d{{4}}-\d\d-\d\d")
    dated = [text for key, text in found.items() if heading.fullmatch(key)]
    if not any(dated):
        raise SystemExit(f"{CHANGELOG}: no section '## {number} - YYYY-MM-DD' with an entry")
    if f"\nversion: {number}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        raise SystemExit(f"CITATION.cff: its version is not {number}")
    if git(root, "tag", "--list", f"v{number}"):
        raise SystemExit(f"v{number} is tagged already; {PACKAGE}__init__.py needs another version")
    return dated[0]


def since(root: Path, ref: str) -> None:
    """Refuse a change of the package that the changelog does not tell.

    Raises:
        SystemExit: it does not tell it.
    """
    changed = git(root, "diff", "--name-only", f"{ref}...HEAD").split()
    if CHANGELOG not in changed and any(name.startswith(PACKAGE) for name in changed):
        raise SystemExit(f"{CHANGELOG}: the package changed but not this; or label it 'no changelog'")


def git(root: Path, *arguments: str) -> str:
    """What git prints."""
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def main(arguments: list[str], root: Path) -> None:
    """The command line."""
    match arguments:
        case ["version"]:
            print(version(root))
        case ["notes"]:
            print(notes(root))
        case ["since", ref]:
            since(root, ref)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:], Path.cwd())
