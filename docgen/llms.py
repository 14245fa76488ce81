"""`llms.txt`, `llms-full.txt` and each page as Markdown: the site as plain text, for coding assistants.

    python -m docgen.llms SITE

writes them into that folder, from the pages that the navigation in `mkdocs.yml` names. The links of
`llms.txt` are absolute: they begin with the `site_url` of `mkdocs.yml`, or else lead into the repository.
"""

from __future__ import annotations

import inspect
import pydoc
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import yaml

ROOT = Path(__file__).resolve().parent.parent
_SHORT = 40
"""Letters of a sentence that says too little alone."""
_INCLUDED = re.compile(r'^( *)--8<-- "(.+)"$', re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)|<[^>]+>")
_MATTER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)
_BLOCK = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A page of the navigation: the section it stands in, its path in `docs/`, and its Markdown."""

    section: str
    path: str
    text: str

    @property
    def title(self) -> str:
        """The first heading."""
        return next(line.removeprefix("# ") for line in self.text.splitlines() if line.startswith("# "))

    @property
    def summary(self) -> str:
        """The first sentence, without links and marks; behind a short one, or a question, the next one, too.

        >>> matter, code = "---\\nasked: [a]\\n---\\n\\n", "```python\\nx\\n```\\n\\n"
        >>> Page("", "x.md", f"{matter}# X\\n\\n{code}`x` says [it](y.md).\\n").summary
        '`x` says it.'
        """
        parts = _BLOCK.sub("", _MATTER.sub("", self.text)).split("\n\n")
        words = (" ".join(_LINK.sub(r"\1", part).split()) for part in parts if part.strip()[:1] not in "|!:#")
        sentences = re.split(r"(?<=[.!?]) (?=[A-Z`])", next(filter(None, words), "").strip("*"))
        short = len(sentences[0]) < _SHORT or sentences[0].endswith("?")
        more = short and not "".join(sentences[1:2]).startswith("See ")
        said = " ".join(sentences[: 2 if more else 1])
        if said.startswith("Import these names") and (found := _ENTRY.search(self.text)):
            said = f"{pydoc.splitdoc(inspect.getdoc(pydoc.locate(found[1])) or '')[0]} {said}"
        return said if said.endswith((".", "!", "?")) else f"{said.rstrip(':;,')}."


def paths(nav: object, section: str = "") -> Iterator[tuple[str, str]]:
    """The sections and pages of a navigation, in order.

    >>> list(paths([{"Start": ["index.md", {"Demo": "start/demo.md"}]}]))
    [('Start', 'index.md'), ('Start', 'start/demo.md')]
    """
    if isinstance(nav, str):
        yield section, nav
    elif isinstance(nav, list):
        for entry in cast("list[object]", nav):
            yield from paths(entry, section)
    elif isinstance(nav, dict):
        for name, inside in cast("dict[str, object]", nav).items():
            yield from paths(inside, section or name)


def pages() -> list[Page]:
    """The pages of the site in the order of its navigation."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return [
        Page(section, path, (ROOT / "docs" / path).read_text(encoding="utf-8"))
        for section, path in paths(config["nav"])
    ]


def address() -> str:
    """Where the pages are as Markdown: on the site, or in the repository if the site has no address."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return (config.get("site_url") or f"{project['urls']['Repository']}/raw/main/docs").rstrip("/")


def index(found: list[Page]) -> str:
    """`llms.txt`: one line a page, with its address and what it says."""
    lines = ["# adk-fluent", "", "> A fluent, typed expression layer over Google's Agent Development Kit."]
    section, base = "", address()
    for page in found:
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({base}/{page.path}): {page.summary}")
    return "\n".join(lines) + "\n"


def full(found: list[Page]) -> str:
    """`llms-full.txt`: the pages themselves, but for those that are made of docstrings."""
    written = [page for page in found if not page.path.startswith("reference/api/")]
    return "\n".join(f"<!-- {page.path} -->\n\n{whole(page.text)}" for page in written)


def whole(text: str) -> str:
    """A page with the files that it includes.

    >>> print(whole('    --8<-- "docgen/__init__.py"'))
        \"\"\"What the documentation's site is made with, beside Zensical: see `./dev docs`.\"\"\"
    """

    def included(found: re.Match[str]) -> str:
        return indent((ROOT / found[2]).read_text(encoding="utf-8").rstrip(), found[1])

    return _INCLUDED.sub(included, text)


def plain(text: str) -> str:
    """A page as Markdown alone: with what it includes, and with docstrings where the site shows an entry."""
    return _ENTRY.sub(lambda found: entry(found[1]), whole(_MATTER.sub("", text)))


def entry(path: str) -> str:
    """The signatures and docstrings of a module's names, or of a class and its methods.

    >>> entry("adk_fluent.A").splitlines()[0]
    '## `adk_fluent.A`'
    """
    value: Any = pydoc.locate(path)
    members = [(f"{path}.{name}", getattr(value, name)) for name in _names(value) if name[0] != "_"]
    below = [_described(name, each, 3) for name, each in members if callable(each)]
    return "\n\n".join([_described(path, value, 2), *below])


def _names(value: Any) -> list[str]:
    if not inspect.ismodule(value):
        return dir(value)
    own = [name for name, each in vars(value).items() if getattr(each, "__module__", "") == value.__name__]
    return getattr(value, "__all__", own)


def _described(name: str, value: Any, level: int) -> str:
    from docgen.doctests import fenced

    try:
        signature = str(inspect.signature(value)).replace("'", "")
    except (TypeError, ValueError):  # a module, or a type that has none
        signature = ""
    said = fenced(inspect.getdoc(value) or "")
    shown = f"\n\n```python\n{name.rpartition('.')[2]}{signature}\n```" if signature else ""
    return f"{'#' * level} `{name}`{shown}\n\n{said}".rstrip()


def write(site: Path) -> None:
    """Write all of it into a folder."""
    found = pages()
    for page in found:
        (site / page.path).parent.mkdir(parents=True, exist_ok=True)
        (site / page.path).write_text(plain(page.text), encoding="utf-8")
    (site / "llms.txt").write_text(index(found), encoding="utf-8")
    (site / "llms-full.txt").write_text(full(found), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
