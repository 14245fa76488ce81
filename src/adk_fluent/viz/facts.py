"""What the page says about each step: its channels, what it writes, and what the checks found."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.checking import check_all
from adk_fluent.contracts.refusals import known
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.inspection.anatomy import LlmAnatomy, llm_anatomy
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.node_names import resolve_names
from adk_fluent.viz.flow import writers
from adk_fluent.viz.looks import NO_NOTES, about, look_of

HEARD: Final[Mapping[Visibility, str]] = {
    "user": "The user sees what it says.",
    "internal": "Only other agents see what it says.",
    "zero_cost": "It says nothing.",
}


@frozen
class Author(Frozen):
    """Somebody whose words the model is shown; if not `certain`, it may be shown them."""

    name: str
    certain: bool


@frozen
class VisibleConversation(Frozen):
    """What an agent is shown of what was said.

    Attributes:
        summary: how much of it, as `LlmAnatomy.history` says.
        sees: who is heard.
        hides: who never is, through any channel.
    """

    summary: str
    sees: tuple[Author, ...]
    hides: tuple[str, ...]


@frozen
class KeyReadFacts(Frozen):
    """A state key that a step reads.

    Attributes:
        place: where the value shows.
        writers: the steps whose value it may be.
        carries: the agents whose words it holds.
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
    """What an agent's model is told beside conversation and state."""

    text: str
    tools: str
    constraint: str


@frozen
class StepFacts(Frozen):
    """One step.

    Attributes:
        kind: what it is, in words.
        about: its label or description, where that says more than its name.
        heard: who hears it, in a sentence.
        conversation: `None` for a step without a model of its own here.
        prompt: `None` for the same.
        state: what it reads.
        writes: what it writes.
        after: where its answer goes; empty without a model.
        notes: what is worth knowing beside that.
        issues: places in `PageFacts.issues`.
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
    """Everything that the page can show.

    Attributes:
        title: what the pipeline is called.
        steps: in running order.
        issues: the worst first; those that hold come last.
    """

    title: str
    steps: tuple[StepFacts, ...]
    issues: tuple[Finding, ...]


def page_facts(root: Node, notes: Mapping[str, str] = NO_NOTES) -> PageFacts:
    """All that the page says about a tree.

    Args:
        notes: what else to say of some steps, by their unique names.

    Raises:
        UnsupportedNodeError: the node is no step.
        DuplicateNameError: two different nodes have one name.
    """
    tree = resolve_names(root).root
    issues = check_all(root).issues
    facts = known(root)
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
        """All about one step; `node` is what runs there, with a name of its own."""
        anatomy, seen = self._anatomies.get(step.name), self._visibility[step.name]
        return StepFacts(
            step.name,
            look_of(node).kind,
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
            own = [step.name] if step in found else []  # in a loop, what it wrote the round before
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
    shown, _, _ = anatomy.history.rpartition(": ")  # the names that follow are links of their own
    return VisibleConversation(shown or anatomy.history, sees, tuple(sorted(anatomy.hides)))


def _notes(anatomy: LlmAnatomy) -> Iterator[str]:
    if anatomy.doubled:
        names = ", ".join(sorted(anatomy.doubled))
        yield f"These words may reach it twice, in the conversation and through state: those of {names}."
    for name in anatomy.unknown:
        yield f"{name} may put more into the request; it does not say what it reads."
