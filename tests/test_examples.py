"""Every example program runs as a reader runs it: without a key, and with a key on a scripted model."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import runpy
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from adk_fluent.backends.adk.running.runner import shared_services
from adk_fluent.cost import unregister_price
from tests import processes
from tests.cli.gemini import Gemini, serve
from tests.example_outputs import PRINTS, SAYS
from tests.limits import LIMIT

pytestmark = pytest.mark.newest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples"
FILES = sorted(FOLDER.glob("*.py"))
PROGRAMS = [*FILES, *sorted(path.parent for path in FOLDER.glob("*/__main__.py"))]
ASKING = [
    path
    for path in PROGRAMS
    if "GOOGLE_API_KEY" in (path / "__main__.py" if path.is_dir() else path).read_text(encoding="utf-8")
]
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ON_THEIR_OWN = ("pytest_suite", "telemetry")
"""What gets a process of its own: pytest itself, and what says for the whole process where measures go."""


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Prices and user values that a program sets stay for the process, so they are reset here."""
    yield
    unregister_price("gemini-2.5-flash-lite")
    shared_services.cache_clear()


def printed(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of a program, which runs in this process unless it needs a separate one."""
    if path.stem in ON_THEIR_OWN:
        few = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p adk_fluent.testing.plugin"}
        done = processes.run_file(path, environment=os.environ | few)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    before = sys.path.copy(), sys.argv.copy()
    sys.argv[:] = [str(path)]
    sys.path.insert(0, str(path if path.is_dir() else path.parent))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as outside tests
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            pytest.fail(f"{path.name} ends with {ended.code}: {capsys.readouterr()}")
    finally:
        sys.path[:], sys.argv[:] = before
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_example_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This example ends well, prints what it should, and leaves nothing behind where it was started."""
    monkeypatch.chdir(tmp_path)
    out = printed(path, capsys)
    assert out == PRINTS.get(path.stem, out)
    assert all(line in out for line in SAYS.get(path.stem, ()))
    assert out.strip()
    assert list(tmp_path.iterdir()) == []


def test_there_are_enough_and_each_says_what_it_shows() -> None:
    """At least 25 complete programs, each a file of at most 120 lines that starts with one sentence."""
    assert len(ASKING) + len(NOTEBOOKS) >= 25
    for path in FOLDER.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert len(source.splitlines()) <= 120, path.name
        first = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
        assert first.endswith((".", "?")), path.name
        assert first.count(". ") == 0, path.name


# --- notebooks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of Jupyter runs every cell; expressions are pictures, reports and runs are tables."""
    nbformat: Any = importlib.import_module("nbformat")
    nbclient: Any = importlib.import_module("nbclient")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "stored without what it shows"
    assert notebook.cells[0].source.startswith("# ")
    client = nbclient.NotebookClient(notebook, timeout=LIMIT, startup_timeout=LIMIT)
    client.execute(cwd=str(tmp_path))
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    kinds = [kind for output in shown for kind in output.get("data", ())]
    assert kinds.count("image/svg+xml") == 1
    assert kinds.count("text/html") == 3
    assert shown[-1]["text"] == "We pay it back.\n"


# --- with a key -----------------------------------------------------------------------------------


def least(schema: Mapping[str, Any]) -> Any:
    """The smallest value that a schema of Gemini allows."""
    if "enum" in schema:
        return schema["enum"][0]
    if alternatives := schema.get("anyOf"):
        return least(alternatives[0])
    match str(schema.get("type", "STRING")).upper():
        case "OBJECT":
            return {name: least(inner) for name, inner in schema.get("properties", {}).items()}
        case "ARRAY":
            return [least(schema.get("items", {}))]
        case "NUMBER" | "INTEGER":
            return max(0, int(schema.get("minimum", 0)))
        case "BOOLEAN":
            return True
        case _ if pattern := schema.get("pattern", ""):
            text = re.sub(r"\[[^]]*\]\{(\d+),\d+\}", lambda found: "x" * int(found[1]), pattern)
            return text.strip("^$").replace("\\", "")
        case _:
            return "2030-01-31" if schema.get("format") == "date" else "1"


class Plain(Mapping[str, str]):
    """Answers for any agent: the least that the request's schema allows, or 1."""

    def __init__(self, requests: list[tuple[str, dict[str, Any]]]) -> None:
        self.requests = requests

    def __getitem__(self, agent: str) -> str:
        asked = f'internal name is \\"{agent}\\"'
        body = next(
            (body for _, body in reversed(self.requests) if asked in json.dumps(body)), self.requests[-1][1]
        )
        config = body.get("generationConfig", {})
        schema = config.get("responseSchema") or config.get("responseJsonSchema")
        return json.dumps(least(schema)) if schema else "1"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@pytest.fixture(scope="module")
def gemini() -> Iterator[Gemini]:
    """A server that answers as Gemini does."""
    requests: list[tuple[str, dict[str, Any]]] = []
    with serve(Gemini(Plain(requests), requests=requests)) as served:
        yield served


@pytest.mark.parametrize("path", ASKING, ids=lambda path: path.stem)
def test_example_asks_gemini_when_there_is_a_key(
    path: Path,
    gemini: Gemini,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a key the same program asks Gemini, and accepts unforeseen answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
    gemini.requests.clear()
    printed(path, capsys)
    assert gemini.requests
    assert all("/models/gemini-" in asked for asked, _ in gemini.requests)
