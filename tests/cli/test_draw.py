"""`adk-fluent viz`: what it prints and the files it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import PIPELINES, Cli

pytestmark = pytest.mark.newest  # the same on every release


@pytest.mark.parametrize("name", ["pipeline", "built"])
def test_it_prints_mermaid(cli: Cli, name: str) -> None:
    """An expression, and the native agent built from it, print the same Mermaid text."""
    done = cli("viz", f"{PIPELINES}:{name}")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        'flowchart TD\n  writer("writer")\n  editor("editor<br/>to the user")\n  writer --> editor\n'
    )
    assert 'writer -. "draft" .-> editor' in done.out


def test_it_draws_a_native_team(cli: Cli) -> None:
    """A native agent is drawn with the agents it may hand over to."""
    assert 'lead -->|"may hand over"| helper' in cli("viz", f"{PIPELINES}:team").out


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        ("mmd", "flowchart TD\n"),
        ("md", "```mermaid\nflowchart TD\n"),
        ("svg", "<svg "),
        ("html", "<!doctype html>\n"),
        ("txt", "● writer → draft"),
    ],
)
def test_it_writes_files(cli: Cli, tmp_path: Path, suffix: str, start: str) -> None:
    """The ending of the file chooses the format."""
    done = cli("viz", PIPELINES, "-o", f"picture.{suffix}")
    assert (done.code, done.out) == (0, f"wrote picture.{suffix}\n")
    assert (tmp_path / f"picture.{suffix}").read_text().startswith(start)


def test_it_writes_png(cli: Cli, tmp_path: Path) -> None:
    """With the extra `viz`, `-o x.png` writes an image."""
    assert cli("viz", PIPELINES, "-o", "picture.png").code == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (
            "picture.gif",
            "viz cannot write 'picture.gif'; end it with one of .mmd, .md, .svg, .png, .html, .txt.",
        ),
        ("no/such/picture.mmd", "Cannot write 'no/such/picture.mmd': No such file or directory."),
    ],
)
def test_a_file_it_cannot_write(cli: Cli, file: str, line: str) -> None:
    """An unknown ending or a missing folder is wrong usage, said in one line."""
    done = cli("viz", PIPELINES, "-o", file)
    assert (done.code, done.out, done.err) == (2, "", f"adk-fluent: {line}\n")


def test_an_agent_whose_inside_is_unknown(cli: Cli, tmp_path: Path) -> None:
    """A custom agent class is drawn as one box of its name."""
    (tmp_path / "custom.py").write_text(
        "from google.adk.agents import BaseAgent\n"
        "class Mine(BaseAgent):\n    pass\n"
        "root_agent = Mine(name='secret')\n"
    )
    done = cli("viz", "custom.py")
    assert (done.code, done.err) == (0, "")
    assert "secret" in done.out
