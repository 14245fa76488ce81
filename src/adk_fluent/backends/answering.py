"""What the answer of a run is as a value, and why there is none where an agent promised one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adk_fluent.analysis.values.kinds import fits
from adk_fluent.analysis.visibility import STANDS_IN
from adk_fluent.backends.events import AgentEvent, Pending, answers, standing, whole
from adk_fluent.errors import AnswerError, sentence
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.graph import Named
from adk_fluent.state.answers import answer_type


@dataclass(frozen=True, slots=True)
class Absence:
    """That an agent which returns a type gave no answer.

    Attributes:
        agents: who should have: one of them.
        reason: why it did not.
        is_answer: whether that is an answer, too: the type is `T | None`.
        remedy: what the user can do about it.
    """

    agents: tuple[str, ...]
    reason: str
    is_answer: bool = False
    remedy: str = "Where there may be none, return a type T | None."

    def value(self) -> None:
        """`None`, where that is an answer.

        Raises:
            AnswerError: it is none; the message says why.
        """
        if not self.is_answer:
            raise self.error()

    def error(self) -> AnswerError:
        """The error which says so."""
        names, reason = " or ".join(map(repr, self.agents)), sentence(self.reason)
        said = f"{names} gave no answer: {reason} {self.remedy}"
        return AnswerError(said, agent=" or ".join(self.agents), reason=reason)


@dataclass(frozen=True, slots=True)
class Answers:
    """Makes of what agents say the types that they return; it pickles where these do.

    Attributes:
        schemas: agent → the type that it returns; one that is not there answers in text.
        origins: unique name → the name the user gave.
        absence: why nobody answered, where somebody promised to.
    """

    schemas: Mapping[str, Any]
    origins: Mapping[str, str]
    absence: Absence | None = None

    @classmethod
    def of(cls, named: Named) -> Answers:
        """Those of the agents of a tree."""
        typed = {node.name: node.returns for node in walk(named.root) if node.returns is not None}
        return cls(typed, dict(named.origins))

    def parse(self, author: str, text: str) -> Any:
        """What an agent said, as the type that it returns, or as text.

        Raises:
            AnswerError: it is not JSON of that type.
        """
        schema = self.schemas.get(author)
        return text if schema is None else answer_type(schema).parse(text, self.origin(author))

    def output(self, events: Iterable[AgentEvent]) -> Any:
        """The answer of a run.

        Raises:
            AnswerError: it is not what its agent promised, or there is none.
        """
        if self.absence is not None:
            return self.absence.value()
        listed = list(events)
        found = self.final(listed)
        return "" if found is None else self.parse(found.author, whole(found, listed))

    def final(self, events: Iterable[AgentEvent]) -> AgentEvent | None:
        """The event with the answer; blank text is none where a type is promised."""
        found = (e for e in reversed(answers(events)) if e.author not in self.schemas or not _is_blank(e))
        return next(found, None)

    def origin(self, name: str) -> str:
        """The name the user gave to what runs as `name`."""
        return self.origins.get(name, name)


def _is_blank(event: AgentEvent) -> bool:
    return not (event.content or "").strip()


def speakers(node: Node) -> list[Node]:
    """The agents of which one has the last word when `node` runs; not those that leave it to others."""
    if node.annotations.visibility == "zero_cost":
        return []
    children = [found for child in node.children if (found := speakers(child))]
    if isinstance(node.runs, execution.STEP_BY_STEP):
        return children[-1] if children else []
    inside = [speaker for found in children for speaker in found]
    return [node, *inside] if node.speaks else inside


def absence(
    root: Node,
    typed: Answers,
    events: Sequence[AgentEvent],
    state: Mapping[str, Any],
    pending: Sequence[Pending] = (),
) -> Absence | None:
    """Why a run has no answer, if an agent that returns a type should have given it.

    Args:
        root: the tree, with unique names.
        typed: who returns what.
        state: the session's state after the run.
        pending: what it waits for.
    """
    if not typed.schemas:
        return None
    found = typed.final(events)
    if found is not None and not pending and (other := handed_over(root, typed, found.author)) is not None:
        return other
    if found is not None and found.author in typed.schemas and not pending:
        return None
    search = _Search(typed, [event for event in standing(events) if not event.is_partial], state)
    if found is None or pending:
        return search.ended(root, pending) or search.why(root)
    return search.instead(root, found)


def handed_over(root: Node, typed: Answers, author: str) -> Absence | None:
    """That an agent which returns a type handed over to one that answers in another, or in text."""
    below = ((node, other) for node in walk(root) for other in _below_model(node))
    above, delegate = next(((node, other) for node, other in below if author in other.voices), (None, None))
    if above is None or delegate is None or (promised := typed.schemas.get(above.name)) is None:
        return None
    boss, other = typed.origin(above.name), typed.origin(delegate.name)
    given, name = typed.schemas.get(author), answer_type(promised).name
    remedy = f"Give {other!r} .returns({name}), too."
    if delegate.opaque:  # which has no such method
        remedy = f"Give {other!r} to {boss!r} as a tool, T.agent(...), so that {boss!r} answers."
    return strayed(boss, promised, f"handed over to {other!r}", given, remedy)


def strayed(agent: str, promised: Any, what: str, given: Any, remedy: str) -> Absence | None:
    """That another one had the last word than an agent which returns a type, if its answer is of another.

    Args:
        agent: the agent that returns a type.
        promised: that type.
        what: how the other one, which it names, came to answer.
        given: the type that the other one returns; `None` for text.
        remedy: what the user can do about it.
    """
    if given is not None and fits(given, promised):
        return None
    answers_in = "text" if given is None else answer_type(given).name
    reason = f"it returns {answer_type(promised).name} and {what}, which answers in {answers_in}"
    return Absence((agent,), reason, remedy=remedy)


def strays(root: Node, typed: Answers) -> frozenset[str]:
    """Who may answer in another type than the agent that handed over to it returns."""
    if not typed.schemas:
        return frozenset()
    names = {name for node in walk(root) for other in _below_model(node) for name in other.voices}
    return frozenset(name for name in names if handed_over(root, typed, name) is not None)


def _below_model(node: Node) -> Iterable[Node]:
    """The agents below one to which its model may hand over, so that they answer instead of it."""
    return (
        (speaker for child in node.children for speaker in speakers(child))
        if isinstance(node.runs, execution.ByModel)
        else ()
    )


class _Search:
    """Looks for whoever should have answered, and for what became of it."""

    def __init__(self, typed: Answers, events: Sequence[AgentEvent], state: Mapping[str, Any]) -> None:
        self.typed, self.events, self.state = typed, events, state
        self.spoke = {event.author for event in events}

    def instead(self, root: Node, found: AgentEvent) -> Absence | None:
        """What it means that one who answers in text had the last word."""
        author = next((node for node in walk(root) if node.name == found.author), None)
        if author is not None and author.asks:
            return self._absent(root, f"it did not run: {found.content}")
        if not found.metadata.get(STANDS_IN) or (why := self.why(root)) is None:
            return None
        said = f"{why.reason}; {self.typed.origin(found.author)!r}, who spoke before, answers in text"
        return self._absent(root, said)

    def ended(self, root: Node, pending: Sequence[Pending]) -> Absence | None:
        """What stopped the run before anybody answered."""
        if pending:
            return self._absent(
                root, f"{pending[0].agent!r} waits for {pending[0].awaited}: {pending[0].message}"
            )
        if self.events and (problem := self.events[-1].error):
            return self._absent(root, f"{self.typed.origin(self.events[-1].author)!r} failed: {problem}")
        return None

    def why(self, node: Node) -> Absence | None:
        """Why `node` gave no answer; nothing if it may answer in text."""
        if node.speaks:
            return self._silent(node)
        speaking = [child for child in node.children if speakers(child)]
        heard = [child for child in speaking if self._spoke(child)]
        if isinstance(node.runs, (execution.FirstMatch, execution.PerItem)) and not heard:
            return self._absent(node, self._not_run(node.runs))
        if isinstance(node.runs, execution.STEP_BY_STEP) or not heard:
            heard = speaking
        return self.why(heard[-1]) if heard else None

    def _silent(self, agent: Node) -> Absence | None:
        """What an agent, or one that it handed over to, did instead of answering."""
        names = {below.name for below in walk(agent)}
        last = next((e for e in reversed(self.events) if e.author in names and _says(e)), None)
        if last is not None:
            return self._absent(agent, _silence(last), [last.author])
        left = any(event.escalate or event.transfer_to for event in self.events)
        return self._absent(agent, "it did not run" if left else "its model said nothing")

    def _absent(self, node: Node, reason: str, names: Sequence[str] = ()) -> Absence | None:
        """That one of these agents, or of those that may have the last word, should have answered."""
        names = names or [speaker.name for speaker in speakers(node)]
        if not names or any(name not in self.typed.schemas for name in names):
            return None
        agents = tuple(dict.fromkeys(map(self.typed.origin, names)))
        return Absence(agents, reason, any(answer_type(self.typed.schemas[n]).takes_none for n in names))

    def _spoke(self, node: Node) -> bool:
        return any(below.name in self.spoke for below in walk(node))

    def _not_run(self, runs: execution.FirstMatch | execution.PerItem) -> str:
        """Why nothing below a node ran."""
        if isinstance(runs, execution.PerItem):
            return f"state key {runs.items!r} holds no items"
        if runs.key is not None:
            value = self.state.get(runs.key)
            holds = "is not set" if value is None else f"is {value!r:.40}"
            return f"no branch of Route({runs.key!r}) matched, since state key {runs.key!r} {holds}"
        if len(runs.tests) == 1:
            return "it was skipped, since its condition did not hold"
        return "no branch of the route matched"


def _silence(last: AgentEvent) -> str:
    """What an agent did that did not answer, by the last it said."""
    if not _is_blank(last) and last.is_final:
        return "what it said is hidden from the user"
    if last.tool_calls:
        return f"it ended with a call of the tool {last.tool_calls[-1].tool_name!r}"
    if last.tool_responses:
        return f"it ended with what the tool {last.tool_responses[-1].tool_name!r} gave"
    if last.parts:
        return "it answered with something that is not text"
    return "it only thought" if _thought(last) else "its answer was empty"


def _says(event: AgentEvent) -> bool:
    """Whether the event has content, be it empty."""
    if event.raw is None:
        return event.content is not None or bool(event.parts or event.tool_calls or event.tool_responses)
    return event.raw.content is not None


def _thought(event: AgentEvent) -> bool:
    """Whether the event holds thoughts of the model."""
    content = None if event.raw is None else event.raw.content
    return any(part.thought and part.text for part in (content.parts if content else None) or ())
