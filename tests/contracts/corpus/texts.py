"""What the check says of every faulty pipeline, word for word: `findings.txt` beside this file.

`python -m tests.contracts.corpus.texts` writes it anew; read what changed before you commit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from adk_fluent.contracts import ContractIssue, check_all
from tests.contracts.corpus import faulty, pauses
from tests.contracts.corpus.cases import Fault

BOOK: Final = Path(__file__).with_name("findings.txt")
HEAD: Final = "## "


def cases() -> Iterator[Fault]:
    """Every faulty pipeline; of those that lose a key to a pause, which are worded alike, the first ones."""
    yield from faulty.FAULTY
    alike = [case for case in pauses.FAULTY if case.code == "pause-temp-key"]
    yield from (case for case in pauses.FAULTY if case not in alike[12:])


def title(case: Fault) -> str:
    """What a case is called in the book."""
    return f"{case.code}: {case.name}"


def text_of(case: Fault) -> str:
    """The findings of the kind that was planted: agent, key and code, and the finding as a report prints it."""
    report = check_all(case.expression, state=case.state, schema=case.schema, config=case.config)
    return "\n".join(_shown(issue) for issue in report.issues if issue.code == case.code)


def _shown(issue: ContractIssue) -> str:
    return f"[{issue.code}, {issue.agent}, {issue.key}]\n{issue}"


def texts() -> dict[str, str]:
    """The book: the text of each case by its title."""
    sections = BOOK.read_text(encoding="utf-8").split(f"\n{HEAD}")
    return {head: body.strip("\n") for head, _, body in (section.partition("\n") for section in sections[1:])}


def write() -> None:
    """Write the book."""
    sections = [f"{HEAD}{title(case)}\n{text_of(case)}\n" for case in cases()]
    BOOK.write_text(
        "\n".join([f"{__doc__.splitlines()[0] if __doc__ else ''}\n", *sections]), encoding="utf-8"
    )


if __name__ == "__main__":
    write()
