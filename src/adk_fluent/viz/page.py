"""The HTML page: a picture that shows, on a click, what a step sees and writes, and its findings."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, cast

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.check import check_all
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.contracts.tree_rules import checked_facts
from adk_fluent.inspection.anatomy import LlmAnatomy, llm_anatomy
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.graph import resolve_names
from adk_fluent.viz.edge_routing import writers
from adk_fluent.viz.images import escape, render, styles
from adk_fluent.viz.layout import to_drawing
from adk_fluent.viz.styles import NO_NOTES, about, style_of

_FOLDER: Final = "adk_fluent.viz"

HEARD: Final[Mapping[Visibility, str]] = {
    "user": "The user sees what it says.",
    "internal": "Only other agents see what it says.",
    "zero_cost": "It says nothing.",
}


@frozen
class Author(Frozen):
    """An author whose text the model sees; if not `certain`, it may see it."""

    name: str
    certain: bool


@frozen
class VisibleConversation(Frozen):
    """The part of the conversation that an agent's model sees.

    Attributes:
        summary: the extent of that part, as in `LlmAnatomy.history`.
        sees: the authors whose text the model sees.
        hides: the authors whose text never reaches the model, through any channel.
    """

    summary: str
    sees: tuple[Author, ...]
    hides: tuple[str, ...]


@frozen
class KeyReadFacts(Frozen):
    """A state key that a step reads.

    Attributes:
        place: the channel by which the step receives the value.
        writers: the steps whose value it may be.
        carries: the agents whose text the value holds.
    """

    key: str
    place: str
    writers: tuple[str, ...]
    carries: tuple[str, ...] = ()


@frozen
class KeyWritten(Frozen):
    """A state key that a step writes, and the steps that read this value."""

    key: str
    readers: tuple[str, ...]


@frozen
class Prompt(Frozen):
    """The instruction, tools and answer type in the request of an agent's model."""

    text: str
    tools: str
    constraint: str


@frozen
class StepFacts(Frozen):
    """The facts about one step.

    Attributes:
        kind: the kind of step, in words.
        about: the step's label or description, if it says more than the name.
        heard: the visibility of the step's text, in a sentence.
        conversation: the visible conversation; `None` for a step whose model does not run in this process.
        prompt: the other parts of the request; `None` for the same steps.
        state: the state keys that the step reads.
        writes: the state keys that the step writes.
        after: the destination of the answer; empty without a model.
        notes: further remarks.
        issues: indexes into `PageFacts.issues`.
    """

    name: str
    kind: str
    about: str
    visibility: Visibility
    heard: str
    conversation: VisibleConversation | None
    prompt: Prompt | None
    state: tuple[KeyReadFacts, ...]
    writes: tuple[KeyWritten, ...]
    after: str
    notes: tuple[str, ...]
    issues: tuple[int, ...]


@frozen
class Finding(Frozen):
    """One finding of the checks; `step` is the name of a step in the picture, or empty."""

    severity: str
    code: str
    step: str
    key: str
    message: str
    hint: str


@frozen
class PageFacts(Frozen):
    """All facts of the page.

    Attributes:
        title: the name of the pipeline.
        steps: the steps in running order.
        issues: the findings, the most severe first; promises that hold come last.
    """

    title: str
    steps: tuple[StepFacts, ...]
    issues: tuple[Finding, ...]


def page_facts(root: Node, notes: Mapping[str, str] = NO_NOTES) -> PageFacts:
    """Collect the facts of the page about a tree.

    Args:
        root: the root of the tree.
        notes: additional remarks on steps, by their unique names.

    Raises:
        UnsupportedNodeError: the node is not a step.
        DuplicateNameError: two different nodes have one name.
    """
    tree = resolve_names(root).root
    issues = check_all(root).issues
    facts = checked_facts(root)
    teller = _Teller(facts, issues, notes)
    steps = tuple(teller.step(node, step) for node, step in zip(walk(tree), facts.steps, strict=True))
    names = facts.plan.by_name
    return PageFacts(root.name or "Pipeline", steps, tuple(_finding(issue, names) for issue in issues))


def _finding(issue: ContractIssue, names: Container[str]) -> Finding:
    step = issue.agent if issue.agent in names else ""
    return Finding(issue.severity.value, issue.code, step, issue.key or "", issue.message, issue.hint)


class _Teller:
    def __init__(
        self, facts: Facts, issues: Iterable[ContractIssue], notes: Mapping[str, str] = NO_NOTES
    ) -> None:
        self._facts = facts
        self._notes = notes
        self._anatomies = llm_anatomy(facts)
        self._visibility = facts.visibility
        self._writers = writers(facts)
        self._readers: dict[tuple[Step, str], list[str]] = {}
        for (reader, key), found in self._writers.items():
            for writer in found:
                if writer is not reader:
                    self._readers.setdefault((writer, key), []).append(reader.name)
        self._issues: dict[str, list[int]] = {}
        for number, issue in enumerate(issues):
            self._issues.setdefault(issue.agent, []).append(number)

    def step(self, node: Node, step: Step) -> StepFacts:
        """The facts about one step; `node` is its node, with a unique name."""
        anatomy, seen = self._anatomies.get(step.name), self._visibility[step.name]
        return StepFacts(
            step.name,
            style_of(node).kind,
            about(node),
            seen,
            HEARD[seen] if node.speaks else "",
            None if anatomy is None else _conversation(anatomy),
            None if anatomy is None else Prompt(anatomy.system, anatomy.tools, anatomy.constraint),
            tuple(self._reads(step, anatomy)),
            tuple(self._written(step)),
            "" if anatomy is None else anatomy.after,
            (
                *(() if anatomy is None else _notes(anatomy)),
                *([f"It costs {note}."] if (note := self._notes.get(step.name)) else ()),
            ),
            tuple(self._issues.get(step.name, ())),
        )

    def _reads(self, step: Step, anatomy: LlmAnatomy | None) -> Iterator[KeyReadFacts]:
        shown = () if anatomy is None else anatomy.keys
        looked_at = sorted({read.key for read in self._facts.reads_of(step) if read.via != "removal"})
        for key in dict.fromkeys((*shown, *looked_at)):
            found = self._writers.get((step, key), ())
            own = [step.name] if step in found else []  # in a loop, from the round before
            sources = (*(writer.name for writer in found if writer is not step), *own)
            if anatomy is None or key not in shown:
                yield KeyReadFacts(key, "read by a function" if anatomy else "", sources)
                continue
            place = "in the instruction" if key in anatomy.placeholders else "beside the conversation"
            carries = tuple(dict.fromkeys(r.author for r in anatomy.reaches if r.key == key))
            yield KeyReadFacts(key, place, sources, carries)

    def _written(self, step: Step) -> Iterator[KeyWritten]:
        for key in sorted(self._facts.writes_of(step)):
            yield KeyWritten(key, tuple(self._readers.get((step, key), ())))


def _conversation(anatomy: LlmAnatomy) -> VisibleConversation:
    sees = tuple(Author(reach.author, reach.certain) for reach in anatomy.reaches if reach.key is None)
    shown, _, _ = anatomy.history.rpartition(": ")  # the page shows the names after it as links
    return VisibleConversation(shown or anatomy.history, sees, tuple(sorted(anatomy.hides)))


def _notes(anatomy: LlmAnatomy) -> Iterator[str]:
    if anatomy.doubled:
        names = ", ".join(sorted(anatomy.doubled))
        yield f"These words may reach it twice, in the conversation and through state: those of {names}."
    for name in anatomy.unknown:
        yield f"{name} may put more into the request; it does not say what it reads."


# --- the page --------------------------------------------------------------------------------------


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
