"""`.llm_anatomy()`: what an agent's model will be sent, and through which channel, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.flow import Flow
from adk_fluent.analysis.plan import Step, hand_over_targets
from adk_fluent.analysis.shown import shown, shown_of_earlier, shown_user
from adk_fluent.analysis.talk.sight import Sight, sight_of
from adk_fluent.analysis.values.fact import PRESENT, STATUS
from adk_fluent.analysis.values.read import Read
from adk_fluent.analysis.words import Words
from adk_fluent.context.entries import USER
from adk_fluent.context.spec import Context
from adk_fluent.contracts.refusals import known
from adk_fluent.inspection.concerns import shown_keys
from adk_fluent.inspection.per_agent import PerAgent, tables
from adk_fluent.inspection.wording import (
    answer_shape,
    asked_again,
    fields_of,
    hanging,
    is_toolset,
    listed,
    prompt_text,
    tool_name,
)
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.functions import function_name, said
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.passage import in_words
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.state.answers import asked_schema

TRANSFER = "transfer_to_agent"
"""The tool by which ADK lets a model hand over to another agent."""


class Reach(NamedTuple):
    """A text of an author reaches an agent's model.

    Attributes:
        author: who says it: an agent by its unique name, or `user`.
        key: the state key through which it comes; `None` for the conversation.
        certain: whether it is there in every call; else it may be.
        whole: for a key, whether its value may be the whole answer; else it may be made of it.
    """

    author: str
    key: str | None = None
    certain: bool = False
    whole: bool = False


class LlmAnatomy:
    """What one agent's model is sent in a run, and what becomes of its answer.

    The first six are the lines that `str()` shows. What functions of yours put into the request (an
    instruction that is a function, callbacks, tools) is not foreseen: `unknown` names those that do not say
    what they read. Each part is found when it is asked for, and then kept: in a long pipeline everybody may
    hear everybody, and few want to know it of all.

    Attributes:
        system: its instruction, placeholders unfilled.
        history: what it is shown of the conversation.
        context: what stands beside that: values of the state.
        tools: what it may call.
        constraint: the shape its answer must have.
        after: where the answer goes.
        agent: its unique name.
        reaches: whose texts of this run reach it, through which channel.
        hides: authors whose texts of this run never reach it, through no channel.
        earlier: authors whose texts of earlier runs of the session may reach it.
        keys: the state keys whose values it is shown.
        placeholders: those of them that stand in its instruction.
        tool_names: its tools, `transfer_to_agent` included; a toolset stands here with the name of its class.
        output_schema: the type its answer must have; `None` for text.
        writes: the state keys it writes.
        unknown: functions that may put more into the request.
    """

    agent: str
    system: str
    history: str
    context: str
    tools: str
    constraint: str
    after: str
    reaches: tuple[Reach, ...]
    hides: frozenset[str]
    earlier: frozenset[str]
    keys: tuple[str, ...]
    placeholders: tuple[str, ...]
    tool_names: tuple[str, ...]
    output_schema: object
    writes: tuple[str, ...]
    unknown: tuple[str, ...]

    def __init__(self, look: _Look) -> None:
        self.__dict__["_look"] = look

    if not TYPE_CHECKING:  # a type checker that saw these would let any attribute be asked for and set

        def __getattr__(self, name: str) -> object:
            if name not in PARTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            found = self.__dict__[name] = getattr(self.__dict__["_look"], name)()
            return found

        def __setattr__(self, name: str, value: object) -> None:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LlmAnatomy):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in PARTS)

    def __hash__(self) -> int:
        return hash((self.agent, self.system))

    def __repr__(self) -> str:
        return f"LlmAnatomy({', '.join(f'{name}={getattr(self, name)!r}' for name in PARTS)})"

    def __reduce__(self) -> tuple[object, ...]:
        return _found, ({name: getattr(self, name) for name in PARTS},)  # without what it is found from

    @property
    def sees(self) -> frozenset[str]:
        """Authors whose texts of this run may reach it: agents by unique name, and `user`."""
        return frozenset(reach.author for reach in self.reaches)

    @property
    def certain(self) -> frozenset[str]:
        """Those of them whose text is in every call."""
        return frozenset(reach.author for reach in self.reaches if reach.certain)

    @property
    def doubled(self) -> frozenset[str]:
        """Agents whose whole answer may reach it twice: in the conversation and through a state key."""
        talking = {reach.author for reach in self.reaches if reach.key is None}
        return frozenset(reach.author for reach in self.reaches if reach.whole and reach.author in talking)

    def rows(self) -> list[tuple[str, str]]:
        """What is sent, through each channel, and what becomes of the answer."""
        return [
            ("System", self.system or "(none)"),
            ("History", self.history),
            ("Context", self.context),
            ("Tools", self.tools),
            ("Constraint", self.constraint),
            ("After", self.after),
        ]

    def __str__(self) -> str:
        """Six numbered lines under the name of the agent."""
        lines = [
            hanging(f"  {number}. {label + ':':<11} ", text)
            for number, (label, text) in enumerate(self.rows(), 1)
        ]
        return "\n".join([f"LLM Call Anatomy: {self.agent}", *lines])

    def _repr_html_(self) -> str:
        return tables({self.agent: self})


PARTS: Final = tuple(LlmAnatomy.__annotations__)
"""The parts of an anatomy, in order."""


def _found(parts: Mapping[str, object]) -> LlmAnatomy:
    """An anatomy all parts of which are known."""
    made = object.__new__(LlmAnatomy)
    made.__dict__.update(parts)
    return made


def llm_anatomy(subject: object) -> PerAgent[LlmAnatomy]:
    """What every agent's model is sent; agents without a model of their own process are left out.

    Args:
        subject: an expression, an IR node, or a native agent or `App` that adk-fluent built.

    Example:
        >>> from adk_fluent import Agent
        >>> classifier = Agent("classifier").instruct("Classify.").writes("intent")
        >>> found = llm_anatomy(classifier >> Agent("booker").instruct("Book. Intent: {intent}"))
        >>> sorted(found["booker"].sees), sorted(found["booker"].doubled)
        (['classifier', 'user'], ['classifier'])
        >>> print(found["booker"])
        LLM Call Anatomy: booker
          1. System:     "Book. Intent: {intent}"
          2. History:    FULL: user, classifier
          3. Context:    none beside {intent} in the instruction
          4. Tools:      none
          5. Constraint: none, the answer is text
          6. After:      response goes to the conversation
    """
    facts = known(subject)
    models = [step for step in facts.steps if step.is_model]
    agents = [step for step in models if isinstance(step.node.runs, ByModel)]
    return PerAgent((step.name, LlmAnatomy(_Look(step, facts, models))) for step in agents)


class _Look:
    """One agent, looked at: a method for each part of its anatomy."""

    def __init__(self, step: Step, facts: Facts, models: list[Step]) -> None:
        self.step = step
        self.models = models
        self.facts = facts

    @property
    def node(self) -> AgentNode:
        """What is looked at."""
        return self.step.node

    @cached_property
    def sight(self) -> Sight:
        """What it is shown of the conversation."""
        return sight_of(self.step.node)

    def agent(self) -> str:
        return self.step.name

    def context(self) -> str:
        return _context(*self._shown_keys, self._files)

    def tools(self) -> str:
        return ", ".join(self._tools) or "none"

    def constraint(self) -> str:
        schema, shape = answer_shape(self.node)
        return _constraint(schema, shape) + (asked_again(self.node) if schema else "")

    def hides(self) -> frozenset[str]:
        seen = {reach.author for reach in self._reaches}
        authors = [USER, *(step.name for step in self.models)]
        return frozenset(name for name in authors if name not in seen and name != self.step.name)

    def keys(self) -> tuple[str, ...]:
        context, prompt = self._shown_keys
        return tuple(dict.fromkeys((*context, *prompt)))

    def placeholders(self) -> tuple[str, ...]:
        return self._shown_keys[1]

    def tool_names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def output_schema(self) -> object:
        return answer_shape(self.node)[0]

    def writes(self) -> tuple[str, ...]:
        return self.facts.writes_of(self.step)

    def reaches(self) -> tuple[Reach, ...]:
        return self._reaches

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """The artifacts that are sent along."""
        spec = self.node.annotations.context
        return tuple(dict.fromkeys(use.filename for use in spec.artifacts)) if spec else ()

    @cached_property
    def _shown_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return shown_keys(self.step, self.facts)

    @cached_property
    def _reaches(self) -> tuple[Reach, ...]:
        return tuple(self._reaching())

    def _reaching(self) -> Iterator[Reach]:
        if (user := shown_user(self.facts.flow, self.step)) != "no":
            yield Reach(USER, certain=user == "yes")
        heard = shown(self.facts.flow, self.step)
        for speaker in sorted(heard, key=lambda step: step.index):
            yield Reach(speaker.name, certain=heard[speaker])
        for read in _shown(self.step, self.facts.flow):
            words = self.facts.flow.words(read)
            if words.user:
                yield Reach(USER, read.key)
            for speaker in self._named(words):
                whole = speaker in read.texts
                yield Reach(speaker.name, read.key, certain=whole and _surely(read, speaker), whole=whole)

    def earlier(self) -> frozenset[str]:
        flow = self.facts.later
        step = flow.plan.steps[self.step.index]
        found = {speaker.name for speaker in shown_of_earlier(flow, step)}
        user = self.sight.earlier and self.sight.user
        for read in _shown(step, flow):
            words = flow.words(read)
            left = [flow.words_left(key) for key in words.before if not is_temporary(key)]
            copied = [words] if words.anybody else []  # what copies anybody's words copies old ones, too
            for old in [*left, *copied]:
                found.update(speaker.name for speaker in self._named(old))
                user = user or old.user
        return frozenset([*found, *[USER] * user])

    def _named(self, words: Words) -> list[Step]:
        """The agents whose words they are, in order."""
        found = self.models if words.anybody else words.steps
        return sorted(found, key=lambda step: step.index)

    def system(self) -> str:
        everywhere = self.facts.plan.root.node.given.get("global_instruction")
        texts = [prompt_text(everywhere), prompt_text(self.node.given.get("instruction"))]
        return "\n\n".join(f'"{text}"' if text[:1] != "<" else text for text in filter(None, texts))

    def history(self) -> str:
        if self.sight.history == "none":
            return "SUPPRESSED"
        heard = [reach for reach in self._reaches if reach.key is None]
        passage = self.facts.flow.pieces_for(self.step)
        upstream = self.facts.flow.upstream.get(self.step, ())
        part_of = {step.name for step in upstream} if passage else set[str]()
        told = {name: f"{name} ({in_words(passage and passage.edge)})" for name in part_of}
        surely = [told.get(reach.author, reach.author) for reach in heard if reach.certain]
        perhaps = [told.get(reach.author, reach.author) for reach in heard if not reach.certain]
        names = "; ".join(filter(None, [", ".join(surely), "perhaps " * bool(perhaps) + ", ".join(perhaps)]))
        spec = self.node.annotations.context
        part = isinstance(spec, Context) and not spec.is_default
        return f"{'PART, ' + self.sight.shown if part or self.sight.history == 'last' else 'FULL'}: {names}"

    @cached_property
    def _tools(self) -> list[str]:
        names = [tool_name(tool) + " (a toolset)" * is_toolset(tool) for tool in self.node.tools]
        return [*names, *([TRANSFER] if self._targets() else ())]

    def _targets(self) -> list[str]:
        """The agents its model can hand over to, as ADK offers them."""
        return [target.name for target in hand_over_targets(self.step)]

    def after(self) -> str:
        stored = self.writes()
        where = ", ".join(f'state["{key}"]' for key in stored)
        text = f"response stored → {where}" if stored else "response goes to the conversation"
        targets = self._targets()
        return f"{text}, or hands over to {listed(targets)}" if targets else text

    def unknown(self) -> tuple[str, ...]:
        return tuple(self._unknown())

    def _unknown(self) -> Iterator[str]:
        readers, _ = self.node.undeclared()
        asked = self.node.given.get("before_model_callback", ())  # which is given the request, too
        for reader in dict.fromkeys([*readers, *(fn for fn in asked if said(fn) is None)]):
            if isinstance(reader, Context):
                yield repr(reader)
            else:
                yield tool_name(reader) if reader in self.node.tools else function_name(reader, "<lambda>")


_TEXT = "none, the answer is text"


def _constraint(schema: object, shape: str) -> str:
    if schema is None:
        return _TEXT
    fields = fields_of(schema)
    return f"must return JSON {shape}" if shape == fields.strip() else f"must return {shape}{fields}"


def _shown(step: Step, flow: Flow) -> list[Read]:
    """What an agent reads and its model is shown, each key once."""
    return list({read.key: read for read in flow.reads_of(step) if read.is_shown and read.reached}.values())


def _surely(read: Read, speaker: Step) -> bool:
    """Whether an agent's whole answer is in the instruction whenever the reader is asked."""
    plain = isinstance(speaker.node.runs, ByModel) and asked_schema(speaker.node) is None
    return (
        read.via == "template"
        and plain
        and all(fact.mask & STATUS == PRESENT and fact.of == (speaker,) for fact in read.facts)
    )


def _context(context: tuple[str, ...], prompt: tuple[str, ...], files: tuple[str, ...]) -> str:
    beside = [", ".join(f'state["{key}"]' for key in context) + " injected"] if context else []
    beside += [f"artifact {', '.join(map(repr, files))} sent along"] if files else []
    if beside:
        return ", ".join(beside)
    inline = ", ".join(f"{{{key}}}" for key in prompt)
    return f"none beside {inline} in the instruction" if inline else "none"
