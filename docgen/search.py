"""What the site's search finds first: `python -m docgen.search SITE` weighs the index that Zensical wrote.

Zensical's search has no weights to set. It finds a section that has every word, and puts first one that has
the most of them together in its title, and the earlier there the better. Thousands of entries of the
reference, each with a title of one word, would stand before every page that says how to do something. So, out
of the reader's sight,

- titles outside the how-to pages and the tutorial begin with marks, those of the reference with more: what
  they say comes later;
- the title of a how-to page goes on with the words by which else it is `asked` for in its front matter, and
  the little words of a question do not exclude it.

An entry of the reference is called by its whole name, `C.budget` rather than `budget`, and found by what is
written about it, not by its source.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final, cast

import yaml

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
LITTLE_WORDS: Final = (
    "a an and are by can could do does for from get have how i if in into is it make me my of on or our"
    " should so that the this to use want we what when where which who why will with without you your"
)
LATER: Final = "~ " * 16
"""Words that nobody looks for, as many as titles of how-to pages may have with what they are `asked` for."""
_SOURCE: Final = re.compile(r"\s*Source code in <code>.*", re.DOTALL)


def asked(page: str) -> str:
    """The words by which a page is looked for, beside those of its title.

    >>> asked("---\\nasked: [money, a limit]\\n---\\n\\n# Add a budget\\n")
    'money a limit'
    """
    matter = re.match(r"---\n(.*?)\n---\n", page, re.DOTALL)
    found = cast("dict[str, list[str]]", yaml.safe_load(matter[1])) if matter else {}
    return " ".join(found.get("asked", ()))


def hidden(words: str) -> str:
    """Words that are searched, and not shown: the search keeps tags, and no attributes.

    >>> hidden("R & D")
    '<template> R &amp; D </template>'
    """
    return f"<template> {escape(words)} </template>"


def weighed(item: Mapping[str, Any], page: str = "") -> dict[str, Any]:
    """An item of the index as it should be found; `page` is the Markdown that it is made of.

    >>> entry = "reference/api/c.html#adk_fluent.C.budget"
    >>> found = weighed({"location": entry, "title": "budget", "text": "Most. Source code in <code>x</code>"})
    >>> found["title"].removeprefix(hidden(LATER * 2)), found["text"]
    ('C.budget', 'Most.')
    >>> page = "---\\nasked: [if]\\n---\\n"
    >>> weighed({"location": "how-to/x.html", "title": "Skip", "text": ""}, page)["title"]
    'Skip<template> if </template>'
    """
    where, _, anchor = item["location"].partition("#")
    title, text = item["title"], item["text"]
    if where.startswith("reference/api/"):
        title, text = anchor.removeprefix("adk_fluent.") or title, _SOURCE.sub("", text)
    if where.startswith("how-to/") and not anchor:
        title, text = title + (hidden(words) if (words := asked(page)) else ""), text + hidden(LITTLE_WORDS)
    elif not where.startswith("tutorial/"):
        title = hidden(LATER * (2 if where.startswith("reference/") else 1)) + title
    return {**item, "title": title, "text": text}


def weigh(site: Path) -> None:
    """Weigh the index of a site that was just built from `docs/`."""
    index = site / "search.json"
    found: dict[str, Any] = json.loads(index.read_text(encoding="utf-8"))
    for number, item in enumerate(found["items"]):
        page = DOCS / item["location"].replace(".html", ".md")
        written = page.read_text(encoding="utf-8") if page.is_file() else ""
        found["items"][number] = weighed(item, written)
    index.write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    weigh(Path(sys.argv[1]))
