"""The findings about every pipeline of the corpora, word for word: `findings.txt` beside this file.

`python -m tests.contracts.corpus.texts` writes the file; read what changed before you commit it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from adk_fluent.contracts import ContractIssue, check_all
from adk_fluent.errors import ADKFluentError
from tests.contracts.corpus import corners, correct, faulty, pauses
from tests.contracts.corpus.cases import REFUSED, Case, Fault
from tests.samples import TERSE

BOOK: Final = Path(__file__).with_name("findings.txt")
HEAD: Final = "## "
CASES: Final[tuple[Case, ...]] = (
    *faulty.FAULTY,
    *pauses.FAULTY,
    *corners.FAULTY,
    *correct.CORRECT,
    *pauses.CORRECT,
    *corners.CORRECT,
)


def title(case: Case) -> str:
    """The heading of a case in the book."""
    return f"{case.code if isinstance(case, Fault) else 'correct'}: {case.name}"


def text_of(case: Case) -> str:
    """The findings about a pipeline; for a faulty one only those of the kind that was planted.

    Each finding has its code, agent and key, and its text in a report. If building refuses the pipeline because
    of it, the error is the last entry.
    """
    issues = check_all(case.expression, state=case.state, schema=case.schema, config=case.config).issues
    kinds = {case.code} if isinstance(case, Fault) else {issue.code for issue in issues} - TERSE
    return "\n".join(
        [
            *(_shown(issue) for issue in issues if issue.code in kinds),
            *(_refusal(case) if kinds & REFUSED else ()),
        ]
    )


def _shown(issue: ContractIssue) -> str:
    return f"[{issue.code}, {issue.agent}, {issue.key}]\n{issue}"


def _refusal(case: Case) -> list[str]:
    try:
        case.expression.build()
    except ADKFluentError as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def texts() -> dict[str, str]:
    """The book: the text of each case by its title."""
    sections = BOOK.read_text(encoding="utf-8").split(f"\n{HEAD}")
    return {head: body.strip("\n") for head, _, body in (section.partition("\n") for section in sections[1:])}


def write() -> None:
    """Write the book."""
    sections = [f"{HEAD}{title(case)}\n{text_of(case)}\n" for case in CASES]
    BOOK.write_text(
        "\n".join(["What the check says of each pipeline beside this file.\n", *sections]), encoding="utf-8"
    )


if __name__ == "__main__":
    write()
