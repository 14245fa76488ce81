"""The programs that `docs/compare/` shows, each with what it told before and when it ran.

    python -m docgen.compare PYTHON

runs those of other libraries with that Python, in whose environment they are installed, those of adk-fluent
and plain ADK with this one, and writes what each printed, after what pyright says of it, beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import Any, Final

PROGRAMS: Final = Path(__file__).resolve().parent.parent / "docs" / "compare" / "programs"
LIBRARIES: Final = ("adk_fluent", "adk", "langgraph", "pydantic_ai")


def programs(*libraries: str) -> list[Path]:
    """The programs for these libraries.

    >>> [program.name for program in programs("adk")][:3]
    ['key_adk.py', 'research_adk.py', 'review_adk.py']
    """
    return sorted(path for library in libraries for path in PROGRAMS.glob(f"*_{library}.py"))


def printed(program: Path, python: str = sys.executable) -> str:
    """What a program prints when it runs with that Python."""
    paths = [str(Path(__file__).resolve().parent.parent / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if python == sys.executable else None
    done = subprocess.run([python, str(program)], env=environment, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"{program.name} failed: {done.stderr}")
    return done.stdout


def typed(program: Path, python: str) -> str:
    """What pyright says of a program in its usual mode, a line for each finding."""
    with TemporaryDirectory() as folder:
        Path(folder, "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', encoding="utf-8")
        for path in (program, PROGRAMS / "scripted.py"):
            copy(path, folder)
        command = ["pyright", "-p", folder, "--pythonpath", python, "--outputjson"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8")
    found: dict[str, Any] = json.loads(done.stdout)
    errors = [each["message"] for each in found["generalDiagnostics"] if each["file"].endswith(program.name)]
    return "".join(f"pyright: {' '.join(message.split())}\n" for message in errors)


def code_lines(program: Path) -> int:
    """Count the lines of a program that are neither blank nor a docstring of one line."""
    lines = (line.strip() for line in program.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith('"""') for line in lines)


def shown(program: Path) -> str:
    """What the file beside a program shows that it printed."""
    lines = program.with_suffix(".txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("pyright: "))


def write(other_python: str) -> None:
    """Run every program, and write down what each told."""
    for library in LIBRARIES:
        python = sys.executable if library.startswith("adk") else other_python
        for program in programs(library):
            told = typed(program, python) + printed(program, python)
            program.with_suffix(".txt").write_text(told, encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
