from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from tests.limits import LIMIT
from tests.test_docs import TUTORIAL, blocks, saved_as, saved_files

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[2]


def write_tutorial(folder: Path) -> None:
    """Save the files of the tutorial as its reader does, and what is typed in as one async function."""
    typed: list[str] = []
    for path in TUTORIAL:
        page = path.read_text(encoding="utf-8")
        for name, text in saved_files(page):
            (folder / name).write_text(text, encoding="utf-8")
        typed += (
            block.text for block in blocks(page) if block.info == "python" and not saved_as(block, page)
        )
    solution = next(text for text in typed if "def test_" in text)  # goes into the file of tests
    with (folder / "test_desk.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\n{solution}")
    body = textwrap.indent("".join(text for text in typed if text != solution), "    ")
    (folder / "session.py").write_text(f"async def session() -> None:\n{body}", encoding="utf-8")


def test_types_are_what_users_rely_on(tmp_path: Path) -> None:
    """Pyright agrees with every `assert_type` in this folder and finds every mistake that is marked there.

    The tutorial passes its strict mode, too: that costs nothing beside the rest.
    """
    write_tutorial(tmp_path)
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    include = [os.path.relpath(ROOT / "tests/typing", tmp_path), "."]
    settings = ours | {"include": include, "extraPaths": [str(ROOT / "src"), str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "-p",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT)
    report = json.loads(done.stdout)
    found = [
        f"{Path(entry['file']).name}:{entry['range']['start']['line'] + 1}: {entry['message']}"
        for entry in report["generalDiagnostics"]
    ]
    assert found == []
    assert report["summary"]["filesAnalyzed"] == len(
        [*(ROOT / "tests/typing").glob("*.py"), *tmp_path.glob("*.py")]
    )
