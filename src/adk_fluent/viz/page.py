"""The HTML page: a picture that shows, on a click, what a step sees and writes, and its findings."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, cast

from adk_fluent.ir.base import Node
from adk_fluent.viz.facts import Finding, PageFacts, page_facts
from adk_fluent.viz.layout import to_drawing
from adk_fluent.viz.looks import NO_NOTES
from adk_fluent.viz.svg import escape, render, styles

_FOLDER: Final = "adk_fluent.viz"


def to_html(node: Node, *, notes: Mapping[str, str] = NO_NOTES) -> str:
    """Draw a tree as one HTML page that needs no other file and no network.

    The page shows control and data lines, and the visibility of each step. If you click a step, or select it
    with the keyboard, the page shows what it sees through conversation, state and prompt, the keys that it
    writes, and the findings of the checks. Only the page's own script can run: names, instructions and
    messages are shown as text.

    Args:
        node: the expression's IR, `expr.node`.
        notes: an additional line for some steps, by their unique names, such as their cost.

    Raises:
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.

    Example:
        >>> from adk_fluent import Agent
        >>> to_html(Agent("a").node).startswith("<!doctype html>")
        True
    """
    facts = page_facts(node, notes)
    picture = render(to_drawing(node, notes), badges=_badges(facts.issues))
    css, script = styles() + _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(css)}'"
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(facts.title)}</title>
<style>{css}</style>
</head>
<body>
<header>
<h1>{escape(facts.title)}</h1>
<p id="summary"></p>
<fieldset id="tools">
<label><input type="checkbox" id="control" checked> control</label>
<label><input type="checkbox" id="data" checked> state</label>
<button type="button" id="smaller" aria-label="smaller">−</button>
<button type="button" id="larger" aria-label="larger">+</button>
</fieldset>
</header>
<main>
<section id="picture" aria-label="Steps">
{picture}</section>
<aside id="panel" aria-live="polite" aria-label="Details"></aside>
</main>
<script type="application/json" id="facts">{_as_json(facts)}</script>
<script>{script}</script>
</body>
</html>
"""


def _badges(issues: Iterable[Finding]) -> dict[str, str]:
    """The severity of the worst finding of each step; promises that hold are left out."""
    found = [issue for issue in issues if issue.severity != "ok"]
    return {issue.step: issue.severity for issue in reversed(found)}  # the worst come first, and win


def _as_json(facts: PageFacts) -> str:
    """The facts as JSON without characters that could end the HTML element around it."""
    text = json.dumps(_plain(facts), separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(item) for item in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _asset(name: str) -> str:
    return files(_FOLDER).joinpath(name).read_text(encoding="utf-8")
