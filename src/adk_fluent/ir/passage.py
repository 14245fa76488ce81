"""The passage of an answer to the next step in a sequence: whole, or in chunks while it is generated.

The backend and the checks both use these functions, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from adk_fluent.ir import execution
from adk_fluent.ir.annotations import EdgeSemantics
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.nodes import AgentNode, agent_of

CHUNK_SIZE: Final = 100
"""The default size of a chunk of a `chunked` edge, in tokens."""
CHARACTERS_PER_TOKEN: Final = 4
"""The usual estimate for English text."""

Taking = Literal["pieces", "runs"]
"""The use of chunks by the next step: it takes each (a tap, a function), or it runs once for each."""


@frozen
class Passage(Frozen):
    """The passage of an answer from one step to the next.

    Attributes:
        edge: the semantics of the edge.
        taking: the use of chunks by the next step; `None` if it receives the answer whole.
        live: True if chunks leave while the answer is generated; False if they leave after it is complete.
        speakers: the names of the agents that wrote the answer.
        why: the reason why it does not pass in chunks, or not while it is generated.
    """

    edge: EdgeSemantics
    taking: Taking | None
    live: bool
    speakers: frozenset[str] = frozenset()
    why: str = ""

    @property
    def characters(self) -> int | None:
        """The most characters of a chunk; `None` for chunks as the model generates them."""
        if self.edge.buffering != "chunked":
            return None
        return (self.edge.chunk_size or CHUNK_SIZE) * CHARACTERS_PER_TOKEN

    @property
    def may_vary(self) -> bool:
        """True if a step that runs once per chunk may write answers of several agents, each to some chunks.

        Which agents did is known after all runs. Then the next step gets the answer in chunks if it is one.
        """
        return self.taking == "runs" and len(self.speakers) > 1


def passages(steps: Sequence[Node]) -> Mapping[int, Passage]:
    """The passages in chunks between steps that run in order: index of the first of two steps → passage.

    Args:
        steps: the steps, with unique names.
    """
    found: dict[int, Passage] = {}
    for index, step in enumerate(steps[:-1]):
        edge = leaving(step)
        if edge is not None and edge.buffering != "full":
            before = found.get(index - 1)
            per_chunk = before is not None and before.taking == "runs"
            found[index] = _passage(edge, step, steps[index + 1], per_chunk=per_chunk)
    return found


def in_words(edge: EdgeSemantics | None) -> str:
    """A description of the chunks of an edge; empty if the answer passes whole.

    >>> in_words(EdgeSemantics("chunked", chunk_size=20))
    'in pieces of 20 tokens'
    """
    match edge.buffering if edge is not None else "full":
        case "chunked":
            assert edge is not None
            return f"in pieces of {edge.chunk_size or CHUNK_SIZE} tokens"
        case "token":
            return "token by token"
        case _:
            return ""


def leaving(step: Node) -> EdgeSemantics | None:
    """The edge by which an answer leaves a step: its own, or that of the step in it which runs last."""
    while (
        step.annotations.edge is None
        and step.children
        and isinstance(step.runs, (execution.InOrder, execution.Wrapped))
    ):
        step = step.children[-1]
    return step.annotations.edge


def speakers(step: Node) -> tuple[Node, ...]:
    """The agents that may write the answer of a step."""
    if step.speaks:
        return tuple(node for node in walk(step) if node.speaks)
    return tuple(found for child in _answering(step) for found in speakers(child))


def _answering(step: Node) -> Sequence[Node]:
    """The children of a composite that may give its answer."""
    if isinstance(step.runs, (execution.InOrder, execution.Repeated)):
        return next(((child,) for child in reversed(step.children) if speakers(child)), ())
    return [child for child in step.children if speakers(child)]


def answer_together(step: Node) -> bool:
    """True if the answer of a step consists of several answers, each perhaps under its own key."""
    if step.speaks:
        return False
    children = _answering(step)
    together = isinstance(step.runs, execution.InParallel) and step.runs.waits and len(children) > 1
    return together or isinstance(step.runs, execution.PerItem) or any(map(answer_together, children))


def _passage(edge: EdgeSemantics, step: Node, taker: Node, *, per_chunk: bool) -> Passage:
    answering = speakers(step)
    names = frozenset(name for agent in answering for name in agent.voices)
    why = _kept_whole(edge, step, answering, taker)
    if why:
        return Passage(edge, None, False, names, why)
    waits = _settled_late(step)
    passage = Passage(edge, "pieces" if taker.takes_pieces else "runs", not waits, names, waits)
    if passage.live and per_chunk and passage.may_vary:
        return passage.replace(live=False, why="another agent may answer each chunk")
    return passage


def _kept_whole(edge: EdgeSemantics, step: Node, answering: Sequence[Node], taker: Node) -> str:
    """The reason why an answer cannot pass in chunks; empty if it can."""
    if any(_structured(agent) for agent in answering):
        return "it answers in JSON, a piece of which says nothing"
    if taker.takes_pieces:
        return ""
    if edge.buffering == "token":
        return f"{taker.name} cannot work on single tokens"
    if answer_together(step):
        return f"several answer at the same time, and {taker.name} gets all their answers together"
    inside = tuple(walk(taker))
    if isinstance(taker.runs, execution.FirstMatch):
        return f"{taker.name} chooses by the whole answer"
    if not any(node.speaks for node in inside):
        return f"no model answers in {taker.name}"
    if any(node.may_pause for node in inside):
        return f"{taker.name} may ask a person, who is asked once and not for each piece"
    if any(isinstance(node.runs, execution.HandOver) for node in inside):
        return f"{taker.name} may hand over"
    if any(_structured(agent) for agent in speakers(taker)):
        return f"{taker.name} answers in JSON, and such answers cannot be joined"
    return ""


def _settled_late(step: Node) -> str:
    """The reason why the answer of a step is known only when it ends; empty if it is known from the start."""
    if any(node.may_pause for node in walk(step)):
        return "it may wait for a person before it ends"
    if (agent := agent_of(step)) is not None:
        return "another agent may answer in its place" if step.children else _changed_late(agent)
    if step.as_given is not None:
        return "what an agent made with ADK alone does is not known before it has ended"
    if step.speaks:
        return f"{step.name} answers in another process"
    if isinstance(step.runs, (execution.InOrder, execution.Wrapped, execution.FirstMatch)):
        if any(isinstance(node.runs, execution.HandOver) for node in walk(step)):
            return "it may hand over"
        last = step.children[-1:] if isinstance(step.runs, execution.InOrder) else step.children
        for child in last:
            if not child.speaks and not child.children:
                return f"{child.name or child.label} runs after it has spoken"
            if why := _settled_late(child):
                return why
        return ""
    return _LATE.get(type(step.runs), "its answer stands only when it has ended")


def _changed_late(agent: AgentNode) -> str:
    """The reason why an agent's answer may differ from the stream of its model; empty if it cannot."""
    given = agent.given
    if given.get("mode") == "task":
        return "it answers when its task is done"
    return next((f"its {part} {what}" for field, part, what in _CHANGING if given.get(field)), "")


_CHANGING: Final = (
    ("planner", "planner", "may take text for thoughts"),
    ("code_executor", "code_executor", "may take text for code"),
    ("after_model_callback", "after_model callback", "may change the answer"),
    ("on_model_error_callback", "on_model_error callback", "may answer in the place of a model that fails"),
    ("after_agent_callback", "after_agent callback", "may say more"),
)
"""The fields of an agent that may change its answer after the stream, and the reason."""

_LATE: Final[Mapping[type[execution.Execution], str]] = {
    execution.Repeated: "only its last round counts",
    execution.InParallel: "its branches run at the same time",
    execution.PerItem: "several answer at the same time",
    execution.FirstSuccess: "it may fail and another answer in its place",
    execution.RaceToSuccess: "it may fail and another answer in its place",
}


def _structured(agent: Node) -> bool:
    """True if an agent answers in JSON: its answer has a type, or fills several fields or one not of text."""
    written = asked.written_fields if (asked := agent_of(agent)) else ()
    data = len(written) > 1 or any(not field.is_text for field in written)
    return data or agent.returns is not None


_ANSWERING: Final = ("around_model", "after_model", "on_model_error", "after_agent", "on_event")
_NO_HOOKS: Final = frozenset(
    name for hook in _ANSWERING for name in (f"Middleware.{hook}", f"BasePlugin.{hook}_callback")
)


def changing_hooks(middleware: object) -> tuple[str, ...]:
    """The hooks with which a middleware, or a plugin of ADK's, may change an answer after its chunks.

    A middleware that only observes has none. The library's own middleware has none if it keeps answers.
    """
    if getattr(middleware, "observes", False):
        return ()
    ours, found = bool(getattr(middleware, "_keeps_answers", False)), list[str]()
    for hook in _ANSWERING:
        for name in (hook, f"{hook}_callback"):
            function = getattr(middleware, name, None)
            if function is None or getattr(function, "__qualname__", "") in _NO_HOOKS:
                continue
            made = getattr(function, "__module__", None) or ""
            if not (ours and made.startswith("adk_fluent.")):  # a subclass may do anything
                found.append(hook)
    return tuple(found)


def cut(text: str, size: int, *, whole: bool = True) -> list[str]:
    """Cut a text in chunks of at most `size` characters, between words if possible.

    Joined, the chunks are the text again. If the text is not yet `whole`, the last chunk is the remainder.

    >>> cut("one two three", 8), cut("abcdefgh", 3)
    (['one two ', 'three'], ['abc', 'def', 'gh'])
    """
    found: list[str] = []
    while len(text) > size:
        end = next((n for n in range(size, 0, -1) if text[n - 1].isspace()), size)
        if text[size].isspace() and not text[size - 1].isspace():
            end = size
        found.append(text[:end])
        text = text[end:]
    return [*found, text] if text or not whole else found
