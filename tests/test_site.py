"""The site as its readers find it: every page, every name, every link and anchor, nothing from elsewhere."""

from __future__ import annotations

import fcntl
import importlib
import inspect
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal

import pytest

import adk_fluent
from adk_fluent import errors
from adk_fluent.cli.arguments import parsed
from docgen.commands import EXAMPLES, PAGE, page
from docgen.llms import address, full, index, pages, plain, write
from docgen.search import weigh
from docgen.terminal import CHECK, DESK, check_picture, desk
from tests.browser import in_browser, new_page
from tests.limits import LIMIT
from tests.looks import faults_of

if TYPE_CHECKING:
    from playwright.async_api import Browser

# Whichever test comes first waits for the site to be built, which takes minutes beside other work.
pytestmark = [pytest.mark.newest, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

NOT_FOR_USERS = {"artifacts", "cli", "context", "expr", "spelling", "tide", "tools"}
"""What users reach by other names (`A`, `C`, `T`, the command line), or not at all."""


def test_every_page_stands_in_the_navigation() -> None:
    """The navigation leaves out no page, and has no line without one."""
    assert sorted(page.path for page in pages()) == sorted(
        str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")
    )


def _empty_sections(text: str) -> list[str]:
    """The headings with nothing below them before the next one that is no deeper, or the end."""
    prose = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "(a block)", text, flags=re.MULTILINE | re.DOTALL)
    found = re.finditer(r"^(#+) (.*)\n(?=\n*(#+ |\Z))", prose, flags=re.MULTILINE)
    return [match[2] for match in found if len(match[3].strip()) <= len(match[1])]


def test_every_section_says_something() -> None:
    """No page has a heading with nothing below it."""
    assert _empty_sections("# A\n\n## B\n\n```\n# x\n```\n\n## C\n\n## D\n") == ["C", "D"]
    assert {
        path.name: empty for path in DOCS.rglob("*.md") if (empty := _empty_sections(path.read_text()))
    } == {}


def test_assistants_get_the_same_pages() -> None:
    """`llms.txt` names each page by its address, and says in a sentence what it is about."""
    found = pages()
    lines = [line for line in index(found).splitlines() if line.startswith("- [")]
    line_of_page = re.compile(r"- \[.+\]\((https://\S+)\): (?:[A-Z`]|adk-fluent ).{15,}[.!?]")
    matches = {line: line_of_page.fullmatch(line) for line in lines}
    assert [line for line, match in matches.items() if match is None] == []
    assert [match[1] for match in matches.values() if match] == [f"{address()}/{page.path}" for page in found]
    assert not [line for line in lines if " = " in line or "import " in line]
    assert (DOCS / "concepts/state.md").read_text(encoding="utf-8") in full(found)
    reference = plain("# C\n\n::: adk_fluent.C\n")
    assert "### `adk_fluent.C.window`\n\n```python\nwindow(n: int = 5) -> Context\n```\n\nSelect" in reference
    assert "CompactionConfig" in plain("::: adk_fluent.config")
    assert plain("---\nasked: [x]\n---\n\n# X\n") == "# X\n"


def test_the_pictures_of_the_landing_page_are_of_its_code() -> None:
    """`python -m docgen.terminal` draws the page's expression and the check's output in the pictures."""
    landing = ModuleType("landing")
    code = re.findall(r"^```python\n(.*?)^```", (DOCS / "index.md").read_text(encoding="utf-8"), re.M | re.S)
    exec(code[0], vars(landing))
    picture = DESK.read_text(encoding="utf-8")
    assert picture == landing.support.visualize("svg") == desk("destination").visualize("svg")
    assert CHECK.read_text(encoding="utf-8") == check_picture()
    assert "destnation" in check_picture()


def test_every_exception_has_its_section() -> None:
    """The page of exceptions has a section for each, with code that raises it, and no other section."""
    page = (DOCS / "reference/exceptions.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    ours = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    assert list(sections) == [name for name, value in ours.items() if issubclass(value, Exception)]
    assert [name for name, text in sections.items() if "```text\n" not in text or "Good:" not in text] == []
    raised = re.findall(r"^```text\n(?:ModelError: .*\n)?(\w+): ", page, re.MULTILINE)
    assert set(sections) - set(raised) == {"ADKFluentError", "AskAgain"}  # these are not raised here


def test_every_command_has_its_section() -> None:
    """The page of the commands has what their help says: `python -m docgen.commands` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
    assert "## serve\n\n```console\n$ adk-fluent serve support.py:pipeline --port" in page()


@pytest.mark.parametrize("command", EXAMPLES)
def test_each_command_has_an_example_that_it_takes(command: str) -> None:
    """The words of the example are the arguments of that command."""
    program, *words = shlex.split(EXAMPLES[command])
    assert program == "adk-fluent"
    assert parsed(words).command == command == words[0]


def build(folder: Path) -> Path:
    """The site, built in a temporary folder from the files of the repository."""
    for name in ("docs", "docgen", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    path = os.pathsep.join([str(folder / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=5 * LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    write(folder / "site")
    weigh(folder / "site")
    return folder / "site"


def public_modules() -> Iterator[ModuleType]:
    """The modules whose names users import."""
    yield adk_fluent
    for module in pkgutil.iter_modules(adk_fluent.__path__):
        if not module.name.startswith("_") and module.name not in NOT_FOR_USERS:
            yield importlib.import_module(f"adk_fluent.{module.name}")


def names_of(module: ModuleType) -> list[str]:
    """The names that a module offers."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def members_of(cls: type) -> list[str]:
    """The public methods, properties and attributes that a class has of this library, also inherited."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("adk_fluent")]
    of_pydantic = {"model_config", "model_post_init"}
    return sorted({name for base in ours for name in vars(base) if not name.startswith("_")} - of_pydantic)


def unexplained(entries: set[str]) -> list[str]:
    """The public names of the library, and public members of its classes, that have no entry.

    What two modules offer, such as `P`, needs one; a class of another package, such as `AgentCard`, none.
    """
    homes: dict[int, list[str]] = {}
    values: dict[int, object] = {}
    for module in public_modules():
        for name in names_of(module):
            value = getattr(module, name)
            if inspect.isclass(value) and not value.__module__.startswith("adk_fluent"):
                continue
            homes.setdefault(id(value), []).append(f"{module.__name__}.{name}")
            values[id(value)] = value
    missing: list[str] = []
    for key, value in values.items():
        home = next((path for path in homes[key] if path in entries), homes[key][0])
        members = [f"{home}.{name}" for name in members_of(value)] if inspect.isclass(value) else []
        missing += [path for path in (home, *members) if path not in entries]
    return missing


def broken_links(site: Mapping[str, str], files: set[str]) -> list[str]:
    """The links between a site's pages, path → HTML, that lead to no file or to no anchor of a page."""
    anchors = {path: set(re.findall(r'\b(?:id|name)="([^"]+)"', html)) for path, html in site.items()}
    broken: list[str] = []
    for path, html in site.items():
        for link in sorted(set(re.findall(r'<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="([^"]*)"', html))):
            if re.match(r"[a-z]+:", link):
                continue
            where, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), where)) if where else path
            target = "index.html" if target == "." else target
            if target not in files or (anchor and anchor not in anchors.get(target, {anchor})):
                broken.append(f"{path}: {link}")
    return broken


def fetched(html: str) -> list[str]:
    """The URLs that a page loads from other hosts when it is opened."""
    loading = (
        r'<(?:script|img|iframe)\b[^>]*\bsrc="(https?:[^"]*)"'
        r'|<link\b[^>]*rel="stylesheet"[^>]*href="(https?:[^"]*)"'
    )
    return ["".join(found) for found in re.findall(loading, html)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all processes that run tests: the first one builds it, and others wait."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "site"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (built := folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            built.write_text(str(build(folder)))
    return Path(built.read_text())


LOOKED_AT = {
    "index.html": "adk-fluent",
    "start/first-pipeline.html": "Your first pipeline",
    "tutorial/1-one-agent.html": "One agent",
    "how-to/budget.html": "Add a budget",
    "concepts/three-channels.html": "Three channels",
    "reference/api/agent.html": "Agent",
}
"""Pages that are looked at, and what their headings say."""

DESKTOP: Final = 1280
PHONE: Final = 390


@in_browser
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(DESKTOP, "light", id="desktop-light"),
        pytest.param(PHONE, "dark", id="phone-dark"),
        pytest.param(DESKTOP, "dark", id="desktop-dark", marks=pytest.mark.exhaustive),
        pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.exhaustive),
    ],
)
async def test_pages_look_right(
    site: Path, browser: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    """Six pages, light and dark, are whole and can be read on a desktop and on a phone.

    With `SITE_PICTURES` set to a folder, a picture of each is put there, for a person to look at.
    """
    pictures = os.environ.get("SITE_PICTURES")
    found: dict[str, list[str]] = {}
    with serving(site) as url:
        page = await new_page(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for path, heading in LOOKED_AT.items():
            await page.goto(f"{url}/{path}")
            assert heading.lower() in (await page.inner_text("h1")).lower()
            found[path] = complaints + await faults_of(page)
            complaints.clear()
            if pictures:
                name = f"{width}-{scheme}-{path.replace('/', '-')}.png"
                await page.screenshot(path=Path(pictures, name))
    assert {where: faults for where, faults in found.items() if faults} == {}


@in_browser
async def test_what_looks_wrong_is_found(browser: Browser) -> None:
    """The check reports each fault that a person would see."""
    page = await new_page(browser, viewport={"width": 390, "height": 800})
    wrong = {
        '<p style="width: 999px">wide</p>': 'p "wide" runs out of the screen',
        '<p style="font-size: 9px">tiny</p>': 'p "tiny" is small: 9px',
        '<p style="color: #ddd">pale</p>': 'p "pale" is faint: 1.4',
        '<img alt="gone" src="data:image/png,none">': 'img "gone" is not loaded',
        '<div class="language-python"><code>x = <span>1</span></code></div>': 'code "x = 1" has no colours',
        '<div>under</div><div style="margin-top: -9px">over</div>': 'div "over" lies over div "under"',
        '<div class="doc-contents" style="overflow: auto"><div class="md-typeset__table">'
        '<table style="width: 999px"><tr><td>x</td></tr></table></div></div>': (
            'table "x": parameters out of sight'
        ),
    }
    for html, fault in wrong.items():
        await page.set_content(f"<article><h1>Right</h1>{html}</article>")
        assert fault in await faults_of(page), html
    await page.set_content("<article><h1>Right</h1><p>Some words.</p></article>")
    assert await faults_of(page) == []


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """A server of a folder's files on a free port of this machine; it ends with the block."""
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(LIMIT)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


LOOKED_FOR = {
    "budget": "how-to/budget.html",
    "add a budget": "how-to/budget.html",
    "resume": "how-to/resume-elsewhere.html",
    "resume after approval in another process": "how-to/resume-elsewhere.html",
    "why does my agent see this text": "how-to/why-this-text.html",
    "test a tool that fails": "how-to/test-a-failing-tool.html",
    "failing tool": "how-to/test-a-failing-tool.html",
    "a2a": "how-to/serving.html",
    "serve over A2A": "how-to/serving.html",
    "parallel": "how-to/parallel.html",
    "timeout": "how-to/timeout.html",
    "precedence": "how-to/parallel.html",
    "operator precedence": "concepts/composites.html",
    "escape braces": "how-to/compose-a-prompt.html",
    "litellm": "how-to/models.html",
    "openai": "how-to/models.html",
    "token_budget": "reference/api/middleware.html",
    "Agent.retry_config": "reference/api/agent.html",
}
"""What readers type into the search, and the page that should be among the first three."""


@in_browser
async def test_the_search_finds_the_page_for_a_task(site: Path, browser: Browser) -> None:
    """A task typed into the search finds its page; a name finds its entry in the reference."""
    found: dict[str, list[str]] = {}
    with serving(site) as url:
        page = await new_page(browser)
        await page.goto(f"{url}/index.html")
        await page.get_by_role("button", name="Search").first.click()
        typed, results = page.get_by_role("combobox"), page.get_by_role("option")
        for words in LOOKED_FOR:
            await typed.fill("")
            await results.first.wait_for(state="detached")
            await typed.fill(words)
            await results.first.wait_for()
            links = [await link.get_attribute("href") or "" for link in (await results.all())[:3]]
            found[words] = [link.removeprefix(f"{url}/").partition("?")[0] for link in links]
            assert "~" not in await results.first.inner_text(), words
    assert {words: first for words, first in found.items() if LOOKED_FOR[words] not in first} == {}


def test_the_site(site: Path) -> None:
    """Every public name has an entry, every link and anchor exists, nothing is loaded from elsewhere."""
    html = {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    files = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    entries = {name for page in html.values() for name in re.findall(r'\bid="(adk_fluent[^"]*)"', page)}
    assert unexplained(entries) == []
    assert {page.path for page in pages()} - files == set()  # each as Markdown, too
    assert broken_links({path: page for path, page in html.items() if path != "404.html"}, files) == []
    assert [place for page in html.values() for place in fetched(page)] == []
    assert '<span class="n">ask</span>' in html["reference/api/agent.html"]
    assert '<span class="n">session_service</span>' in html["reference/api/agent.html"]
    assert "an <code>ExecutionConfig</code>: limits, streaming" in html["reference/api/agent.html"]
    assert '<span class="n">cached_input</span>' in html["reference/api/cost.html"]
    assert 'class="language-python highlight"' in html["index.html"]  # by which colours are looked for
    assert "Source code in" in html["reference/api/agent.html"]


def test_a_method_without_an_entry_is_found() -> None:
    """Without any entry, each class, method and function of the library is named; inherited methods, too."""
    missing = unexplained(set())
    assert {"adk_fluent.Agent.ask", "adk_fluent.gate", "adk_fluent.C.window"} <= set(missing)
    assert "adk_fluent.Agent.tool" not in unexplained({"adk_fluent.Agent.tool"})


def test_what_is_broken_is_found() -> None:
    """A missing file, a missing anchor and a script from elsewhere are found; what is right is left alone."""
    site = {
        "index.html": '<a href="a/b.html#two">x</a><a href="#none">x</a><a href="https://x.org/">x</a>',
        "a/b.html": '<h2 id="one">x</h2><a href="../index.html">x</a><img alt="x" src="c.png">',
    }
    found = ["index.html: #none", "index.html: a/b.html#two", "a/b.html: c.png"]
    assert broken_links(site, set(site)) == found
    assert fetched('<script src="https://x.org/y.js"></script><a href="https://x.org">x</a>') == [
        "https://x.org/y.js"
    ]
