"""Runs every example that a reader sees: code blocks of the documentation, doctests of the code."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from adk_fluent.backends.adk.running.runner import shared_services
from tests import processes
from tests.limits import LIMIT
from tests.page_findings import Shown, noting_runs

pytestmark = pytest.mark.newest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_id(path: Path) -> str:
    """The name of a page in the ids of tests."""
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """One fenced block: its info string, its text, and the lines where it starts and ends in its file."""

    info: str
    text: str
    first_line: int
    last_line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, in order; a fence is closed by one at least as long."""
    lines = page.splitlines()
    fence, start, indent = "", 0, 0
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        ticks = bare[: len(bare) - len(bare.lstrip("`"))]
        if not fence and len(ticks) >= 3:
            fence, start, indent = ticks, number, len(line) - len(line.lstrip())
        elif fence and bare == ticks and len(ticks) >= len(fence):
            body = [text[min(indent, len(text) - len(text.lstrip())) :] for text in lines[start : number - 1]]
            info = lines[start - 1].strip().lstrip("`").strip()
            yield Block(info, "".join(f"{text}\n" for text in body), start, number)
            fence = ""


def is_output_of(block: Block, previous: Block | None, page: str) -> bool:
    """True if a block shows the output of the Python block right before it."""
    if previous is None or previous.info != "python" or block.info not in ("text", "console", "mermaid"):
        return False
    between = page.splitlines()[previous.last_line : block.first_line - 1]
    return not "".join(between).strip() and not block.text.startswith("$ ")


SAVE = re.compile(r"[Ss]ave this as `(\w+\.py)`")


def saved_as(block: Block, page: str) -> str | None:
    """The name under which a reader saves a block: the paragraph right before it says so."""
    before = "\n".join(page.splitlines()[: block.first_line - 1]).rstrip().rpartition("\n\n")[2]
    told = SAVE.search(before)
    return told[1] if told and before.endswith(":") and block.info == "python" else None


def saved_files(page: str) -> list[tuple[str, str]]:
    """The files that a page tells its reader to save, with their names."""
    return [(name, block.text) for block in blocks(page) if (name := saved_as(block, page))]


def compiled(block: Block, path: Path) -> CodeType:
    """A block's code, with `await` allowed outside functions and the line numbers of its file."""
    source = "\n" * block.first_line + block.text
    return compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def as_a_file(page: str, path: Path) -> None:
    """Show the source of a page's functions to the check, as the file does into which a reader types them."""
    lines = [""] * len(page.splitlines())
    for block in blocks(page):
        if block.info == "python":
            lines[block.first_line : block.last_line - 1] = block.text.splitlines()
    linecache.cache[str(path)] = (len(page), None, [f"{line}\n" for line in lines], str(path))


def run_page(path: Path, module: ModuleType, shown: Shown | None = None) -> int:
    """Run a page's Python blocks in order in one module; compare what each prints with the block after it.

    Returns how many blocks ran.
    """
    page = path.read_text(encoding="utf-8")
    shown = shown or Shown()
    as_a_file(page, path)
    module.__file__ = str(path)
    previous: Block | None = None
    printed = ""
    ran = 0
    with asyncio.Runner() as runner, noting_runs(shown):
        for block in blocks(page):
            where = f"{path.name}:{block.first_line}"
            if block.info == "python":
                code = compiled(block, path)
                if name := saved_as(block, page):
                    Path(name).write_text(block.text, encoding="utf-8")
                    importlib.invalidate_caches()
                    code = compile("", str(path), "exec")
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    result = eval(code, module.__dict__)
                    if code.co_flags & inspect.CO_COROUTINE:
                        runner.run(result)
                printed = out.getvalue()
                shown.text += printed
                shown.name(vars(module).values())
                ran += 1
            elif is_output_of(block, previous, page):
                assert printed == block.text, f"{where} does not show what the block before it prints"
            elif block.info.startswith(("py", "Py")):
                pytest.fail(f"{where}: write ```python alone; every Python block is run")
            previous = block
    return ran


def run_forked(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `[sys.executable, FILE]`, as pages do, in a fork of a process that has imported google-adk."""
    python, file = command
    assert (python, options.keys() - {"stderr"}) == (sys.executable, set())
    done = processes.run_file(Path(file))
    sys.stdout.write(done.stdout)
    return done


@pytest.fixture
def page_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """An empty module that the blocks of a page share, importable like a user's own, in an empty folder.

    What a page keeps about a user is gone behind it: all sessions of a process are in one service. Programs
    that it writes into files run in forks: most of what a fresh Python does is to import google-adk.
    """
    module = ModuleType("page")
    monkeypatch.setattr(subprocess, "run", run_forked)
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)
    yield module
    shared_services.cache_clear()


FAULTS = [ROOT / "docs/reference/contracts.md", ROOT / "docs/reference/exceptions.md"]
"""Pages that show one fault after the other."""
TUTORIAL = sorted((ROOT / "docs/tutorial").glob("*.md"))


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, page_module: ModuleType) -> ModuleType:
    """The module of a session that was started in an empty folder, and imports from it."""
    monkeypatch.setattr(sys, "path", [str(Path.cwd()), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # files are replaced within a second here
    monkeypatch.setitem(sys.modules, "desk", page_module)
    del sys.modules["desk"]
    return page_module


def test_the_tutorial_works_in_one_session(own_folder: ModuleType) -> None:
    """Type all chapters into one session, saving the files that they say; each block prints what is shown."""
    shown = Shown()
    for path in TUTORIAL:
        expected = sum(block.info == "python" for block in blocks(path.read_text(encoding="utf-8")))
        assert run_page(path, own_folder, shown) == expected
    found = shown.findings("".join(path.read_text(encoding="utf-8") for path in TUTORIAL))
    assert found == [], "\n".join(found)


def test_a_chapter_shows_the_desk_that_the_next_ones_go_on_from() -> None:
    """Each `desk.py` stands in its chapter, to be saved over the one before; each chapter has an exercise."""
    for path in TUTORIAL:
        page = path.read_text(encoding="utf-8")
        desk = path.parent / "desk" / f"{path.name.partition('-')[0]}.py"
        shown = [text for name, text in saved_files(page) if name == "desk.py"]
        assert shown == ([desk.read_text(encoding="utf-8")] if desk.exists() else []), path.name
        assert [page.count(each) for each in ("**Exercise.**", '??? example "Solution"')] == [1, 1], path.name


def test_the_tests_of_the_tutorial_pass(tmp_path: Path) -> None:
    """Chapter 6 shows a file of tests and one more as a solution; pytest runs them as the page says."""
    page = ""
    for path in TUTORIAL[:6]:
        page = path.read_text(encoding="utf-8")
        for name, text in saved_files(page):
            (tmp_path / name).write_text(text, encoding="utf-8")
    *_, solution = (block for block in blocks(page) if block.info == "python")
    with (tmp_path / "test_desk.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\n{solution.text}")
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=2 * LIMIT
    )
    assert "5 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("path", [page for page in PAGES if page not in TUTORIAL], ids=page_id)
def test_documentation_runs(path: Path, page_module: ModuleType) -> None:
    """Every Python block runs and prints what the page says; the check finds nothing that is not shown."""
    page, shown = path.read_text(encoding="utf-8"), Shown()
    expected = sum(block.info == "python" for block in blocks(page))
    assert run_page(path, page_module, shown) == expected
    found = [] if path in FAULTS else shown.findings(page)
    assert found == [], "\n".join(found)


NARROW = [ROOT / "README.md", ROOT / "docs/index.md", *TUTORIAL, *sorted((ROOT / "docs/start").glob("*.md"))]
INCLUDED = sorted((ROOT / "docs/compare/programs").glob("*.py"))


@pytest.mark.parametrize("path", [*NARROW, *INCLUDED], ids=page_id)
def test_code_fits_the_column_of_its_page(path: Path) -> None:
    """Show each line of Python without a scroll bar: a column holds 91 characters."""
    text = path.read_text(encoding="utf-8")
    python = [block.text for block in blocks(text) if block.info == "python"] if path in NARROW else [text]
    assert [line for code in python for line in code.splitlines() if len(line) > 91] == []


TEST_NAME = re.compile(r"`(tests/[\w/.-]+\.py)::(\w+)`")


@cache
def defined_tests(path: Path) -> set[str]:
    """The test functions of a file, those of its classes included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name.startswith("test")
    }


def guarantees(page: str) -> Iterator[str]:
    """The rows of a page's tables whose columns are `guarantee` and `test`."""
    for table in re.findall(
        r"^\| guarantee \| test \|\n\|[ -|]+\|\n((?:\|.*\n?)*)", page, flags=re.MULTILINE
    ):
        yield from table.splitlines()


def unproved(page: str) -> list[str]:
    """Say which rows name no test, and which tests do not exist."""
    rows = [f"names no test: {row}" for row in guarantees(page) if not TEST_NAME.search(row)]
    missing = (
        f"does not exist: {file}::{name}"
        for file, name in TEST_NAME.findall(page)
        if not (ROOT / file).is_file() or name not in defined_tests(ROOT / file)
    )
    return [*rows, *missing]


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_every_guarantee_names_a_test_that_exists(path: Path) -> None:
    """Each row of a table of guarantees names at least one test, and each test that a page names exists."""
    assert unproved(path.read_text(encoding="utf-8")) == []


def test_a_guarantee_without_a_test_is_found() -> None:
    """A row without a test fails, and so does a test that was renamed or removed."""
    head = "| guarantee | test |\n| --- | --- |\n"
    page = f"{head}| It holds. | soon |\n| It stays. | `tests/test_docs.py::test_gone` |\n"
    assert unproved(page) == [
        "names no test: | It holds. | soon |",
        "does not exist: tests/test_docs.py::test_gone",
    ]


def modules_of(folder: str, root: Path) -> list[str]:
    """The dotted names of the modules in a folder, as imported from `root`."""
    files = (path.relative_to(root).with_suffix("") for path in sorted((root / folder).rglob("*.py")))
    names = (".".join(path.parts).removesuffix(".__init__") for path in files if path.name != "__main__")
    return list(names)


@pytest.mark.parametrize(
    "name",
    [*modules_of("adk_fluent", ROOT / "src"), *modules_of("codegen", ROOT), *modules_of("docgen", ROOT)],
)
def test_docstring_examples_run(name: str) -> None:
    """Every example in this module's docstrings gives the result that the docstring shows."""
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder().find(importlib.import_module(name), name):
        linecache.clearcache()  # else the debugger of doctest looks at every file that it knows, each time
        runner.run(example, out=report.write)
    assert runner.failures == 0, report.getvalue()


GOOD_PAGE = """
```python
import asyncio
async def answer():
    await asyncio.sleep(0)
    return 42
```

Later blocks know the names of earlier ones.

```python
print(await answer())
```

```text
42
```
"""


def test_a_right_page_passes(tmp_path: Path, page_module: ModuleType) -> None:
    """Blocks share their names, may await, and a page that shows the real output passes."""
    path = tmp_path / "page.md"
    path.write_text(GOOD_PAGE)
    assert run_page(path, page_module) == 2


def test_a_page_with_a_finding_fails(tmp_path: Path, page_module: ModuleType) -> None:
    """An expression that the check notes is found, unless the page prints the finding."""
    path, shown = tmp_path / "page.md", Shown()
    page = '```python\nfrom adk_fluent import Agent\na = Agent("a").instruct("Use {x}.")\n```\n'
    path.write_text(page)
    run_page(path, page_module, shown)
    assert [line.splitlines()[0] for line in shown.findings(page)] == ["✗ a reads {x} in instruction: ERROR"]
    path.write_text(page.replace("\n```\n", "\nprint(a.check())\n```\n"))
    run_page(path, page_module, shown)
    assert shown.findings(page) == []


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("text\n42\n", "text\n43\n", "does not show"),
        ("print(await answer())", "print(await question())", "question"),
        ("```python\nimport", "```python no-run\nimport", "every Python block is run"),
    ],
)
def test_a_wrong_page_fails(old: str, new: str, error: str, tmp_path: Path, page_module: ModuleType) -> None:
    """A page fails for output it does not print, a name that does not exist, a block kept from running."""
    path = tmp_path / "page.md"
    assert old in GOOD_PAGE
    path.write_text(GOOD_PAGE.replace(old, new))
    with pytest.raises((AssertionError, NameError, pytest.fail.Exception), match=error):
        run_page(path, page_module)
