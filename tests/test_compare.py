"""The comparison with other libraries shows what its programs print."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from adk_fluent import Agent
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ContractError
from adk_fluent.testing import mock_backend
from docgen.compare import LIBRARIES, PROGRAMS, code_lines, printed, programs, shown
from tests.processes import run_file

pytestmark = pytest.mark.newest

PAGE = PROGRAMS.parent / "index.md"


@pytest.mark.parametrize("program", programs("adk_fluent", "adk"), ids=lambda path: path.stem)
def test_the_page_shows_what_a_program_prints(program: Path) -> None:
    """Each program of adk-fluent and plain ADK prints what stands beside it."""
    done = run_file(program)
    assert (done.returncode, done.stdout) == (0, shown(program)), done.stderr


def test_what_is_shown_was_written_down_with_the_versions_that_the_page_names() -> None:
    """The page shows each of the five programs in each library, with its output, and names every version."""
    page = PAGE.read_text(encoding="utf-8")
    files = [path.with_suffix(suffix) for path in programs(*LIBRARIES) for suffix in (".py", ".txt")]
    assert len(files) == 2 * 5 * len(LIBRARIES)
    assert [path.name for path in files if f"programs/{path.name}" not in page] == []
    pins = re.findall(r"^([a-z-]+)==(.+)$", (PROGRAMS / "requirements.txt").read_text(), re.MULTILINE)
    named = page.lower()
    assert len(pins) == 3
    assert [pin for pin in pins if f"{pin[0].removesuffix('-slim')} {pin[1]}" not in named] == []
    adk = ".".join(importlib.metadata.version("google-adk").split(".")[:2])
    assert f"plain ADK {adk}" in page


def test_what_pyright_said_is_no_output(tmp_path: Path) -> None:
    """The findings of a type checker stand before the output of a program, separate from it."""
    program = tmp_path / "key_langgraph.py"
    program.with_suffix(".txt").write_text("pyright: no such key\nrun: KeyError\n", encoding="utf-8")
    assert shown(program) == "run: KeyError\n"


def test_a_program_that_fails_is_told(tmp_path: Path) -> None:
    """A program that ends with an error is not written down as if it printed nothing."""
    program = tmp_path / "key_adk.py"
    program.write_text("print('here')", encoding="utf-8")
    assert printed(program) == "here\n"
    program.write_text("raise SystemExit('gone')", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"key_adk\.py failed: gone"):
        printed(program)


def test_the_page_counts_the_lines_of_the_programs() -> None:
    """The table gives the lines of code of the three programs in each library."""
    counts = (
        ", ".join(
            str(code_lines(PROGRAMS / f"{name}_{library}.py")) for name in ("route", "review", "research")
        )
        for library in LIBRARIES
    )
    row = f"| lines of code: router, review, research | {' | '.join(counts)} |"
    assert row in PAGE.read_text(encoding="utf-8").splitlines()


def test_strict_refuses_before_a_model_is_asked() -> None:
    """Both ways that the page names end the run with the misspelt key before a model is asked."""
    script = mock_backend({"research": "Tea is old.", "writer": "..."})
    pipeline = Agent("research").writes("facts") >> Agent("writer").instruct("Write with {fact}.")
    with pytest.raises(ContractError, match="fact"):
        pipeline.strict().ask("Tea", backend=script)
    with pytest.raises(ContractError, match="fact"):
        pipeline.ask("Tea", backend=script, config=ExecutionConfig(contracts="error"))
    assert script.calls == {}
