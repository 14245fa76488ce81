"""`llms.txt` and `llms-full.txt`: the pages of the site as plain text, for coding assistants.

    python -m docgen.llms SITE

writes both into that folder, from the pages that the navigation in `mkdocs.yml` names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import yaml

ROOT = Path(__file__).resolve().parent.parent
_INCLUDED = re.compile(r'^( *)--8<-- "(.+)"$', re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


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
        """The first sentence after the heading, without links and marks."""
        words = (part for part in self.text.split("\n\n")[1:] if part[:1] not in "`|![:<#")
        sentence = re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(next(words, "").split()), maxsplit=1)[0]
        return _LINK.sub(r"\1", sentence).strip("*")


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


def index(found: list[Page]) -> str:
    """`llms.txt`: one line a page, with where it stands in the site and what it says."""
    lines = ["# adk-fluent", "", "> A fluent, typed expression layer over Google's Agent Development Kit."]
    section = ""
    for page in found:
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({page.path.removesuffix('.md')}.html): {page.summary}")
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


def write(site: Path) -> None:
    """Write both files into a folder."""
    found = pages()
    (site / "llms.txt").write_text(index(found), encoding="utf-8")
    (site / "llms-full.txt").write_text(full(found), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
