"""`.llm_anatomy()`: the request that an agent's model will receive, channel by channel, before a run.

Each part of an anatomy is computed on first access and then kept. The simple way, to compute all parts of
all agents at once, takes quadratic time: in a long pipeline every agent may see every other agent's text,
and most callers ask for a few parts only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from adk_fluent.analysis import audience
from adk_fluent.analysis.data_flow import Authors, Flow, Read
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step, hand_over_targets
from adk_fluent.analysis.values.fact import PRESENT, STATUS
from adk_fluent.context.entries import USER
from adk_fluent.context.spec import Context
from adk_fluent.contracts.tree_rules import checked_facts
from adk_fluent.inspection import presentation
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.functions import function_name, said
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.passage import in_words
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.state.answers import asked_schema

TRANSFER = "transfer_to_agent"
"""The tool of ADK by which a model transfers the conversation to another agent."""


class Reach(NamedTuple):
    """A channel through which an author's text reaches an agent's model.

    Attributes:
        author: the unique name of the agent that wrote the text, or `user`.
        key: the state key that carries the text; `None` for the conversation.
        certain: True if the text is in every request; False if it may be.
        whole: True if the key may hold the whole answer; False if its value is only made from it.
    """

    author: str
    key: str | None = None
    certain: bool = False
    whole: bool = False


class LlmAnatomy:
    """The request that one agent's model receives in a run, and the destination of its answer.

    The first six attributes are the lines of `str()`. Your own functions (an instruction that is a function,
    callbacks, tools) may add to the request in ways that cannot be predicted: `unknown` names those that do
    not declare the keys that they read.

    Attributes:
        system: the instruction, with unfilled placeholders.
        history: the part of the conversation that the model receives.
        context: the state values and artifacts that the model receives beside it.
        tools: the tools that the model may call.
        constraint: the type that the answer must have.
        after: the destination of the answer.
        agent: the agent's unique name.
        reaches: the authors whose texts of this run reach the model, with the channel.
        hides: the authors whose texts of this run never reach the model.
        earlier: the authors whose texts of earlier runs of the session may reach the model.
        keys: the state keys whose values the model receives.
        placeholders: the state keys that are placeholders of the instruction.
        tool_names: the names of the tools, with `transfer_to_agent`; for a toolset, the name of its class.
        output_schema: the type that the answer must have; `None` for text.
        writes: the state keys that the agent writes.
        unknown: the functions that may add to the request.
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

    def __init__(self, source: _AnatomyOf) -> None:
        self.__dict__["_source"] = source

    if not TYPE_CHECKING:  # a type checker that saw these would accept any attribute

        def __getattr__(self, name: str) -> object:
            if name not in PARTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            found = self.__dict__[name] = getattr(self.__dict__["_source"], name)()
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
        return _found, ({name: getattr(self, name) for name in PARTS},)  # the parts, without the facts

    @property
    def sees(self) -> frozenset[str]:
        """The authors whose texts of this run may reach the model: agents by unique name, and `user`."""
        return frozenset(reach.author for reach in self.reaches)

    @property
    def certain(self) -> frozenset[str]:
        """The authors whose texts are in every request."""
        return frozenset(reach.author for reach in self.reaches if reach.certain)

    @property
    def doubled(self) -> frozenset[str]:
        """The agents whose whole answer may reach the model twice: by the conversation and by a state key."""
        talking = {reach.author for reach in self.reaches if reach.key is None}
        return frozenset(reach.author for reach in self.reaches if reach.whole and reach.author in talking)

    def rows(self) -> list[tuple[str, str]]:
        """The six labels and texts of the anatomy."""
        return [
            ("System", self.system or "(none)"),
            ("History", self.history),
            ("Context", self.context),
            ("Tools", self.tools),
            ("Constraint", self.constraint),
            ("After", self.after),
        ]

    def __str__(self) -> str:
        """Six numbered lines below the name of the agent."""
        lines = [
            presentation.hanging(f"  {number}. {label + ':':<11} ", text)
            for number, (label, text) in enumerate(self.rows(), 1)
        ]
        return "\n".join([f"LLM Call Anatomy: {self.agent}", *lines])

    def _repr_html_(self) -> str:
        return presentation.tables({self.agent: self})


PARTS: Final = tuple(LlmAnatomy.__annotations__)
"""The parts of an anatomy, in order."""


def _found(parts: Mapping[str, object]) -> LlmAnatomy:
    """Make an anatomy from its parts, for `copy` and `pickle`."""
    made = object.__new__(LlmAnatomy)
    made.__dict__.update(parts)
    return made


def llm_anatomy(subject: object) -> presentation.PerAgent[LlmAnatomy]:
    """Show the request of every agent's model; remote agents and unreadable native ones are left out.

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
    facts = checked_facts(subject)
    models = [step for step in facts.steps if step.is_model]
    agents = [step for step in models if isinstance(step.node.runs, ByModel)]
    return presentation.PerAgent((step.name, LlmAnatomy(_AnatomyOf(step, facts, models))) for step in agents)


def shown_keys(step: Step, facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The state keys whose values an agent's model receives: those of its context, and its placeholders."""
    reads = list(facts.reads_of(step))
    context = dict.fromkeys(read.key for read in reads if read.via in ("context", "remote"))
    prompt = dict.fromkeys(read.key for read in reads if read.via in ("template", "prompt"))
    return tuple(context), tuple(prompt)


class _AnatomyOf:
    """Compute the anatomy of one agent: one method for each of `PARTS`."""

    def __init__(self, step: Step, facts: Facts, models: list[Step]) -> None:
        self.step = step
        self.models = models
        self.facts = facts

    @property
    def node(self) -> AgentNode:
        """The agent's node."""
        return self.step.node

    @cached_property
    def visible(self) -> audience.VisibleHistory:
        """The part of the conversation that the agent's context selects."""
        return audience.visible_history(self.step.node)

    def agent(self) -> str:
        return self.step.name

    def context(self) -> str:
        return _context(*self._shown_keys, self._files)

    def tools(self) -> str:
        return ", ".join(self._tools) or "none"

    def constraint(self) -> str:
        schema, shape = presentation.answer_shape(self.node)
        return _constraint(schema, shape) + (presentation.asked_again(self.node) if schema else "")

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
        return presentation.answer_shape(self.node)[0]

    def writes(self) -> tuple[str, ...]:
        return self.facts.writes_of(self.step)

    def reaches(self) -> tuple[Reach, ...]:
        return self._reaches

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """The names of the artifacts that the request contains."""
        spec = self.node.annotations.context
        return tuple(dict.fromkeys(use.filename for use in spec.artifacts)) if spec else ()

    @cached_property
    def _shown_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return shown_keys(self.step, self.facts)

    @cached_property
    def _reaches(self) -> tuple[Reach, ...]:
        return tuple(self._reaching())

    def _reaching(self) -> Iterator[Reach]:
        if (user := audience.receives_user_message(self.facts.flow, self.step)) != "no":
            yield Reach(USER, certain=user == "yes")
        heard = audience.received_speakers(self.facts.flow, self.step)
        for speaker in sorted(heard, key=lambda step: step.index):
            yield Reach(speaker.name, certain=heard[speaker])
        for read in _shown(self.step, self.facts.flow):
            words = self.facts.flow.authors(read)
            if words.user:
                yield Reach(USER, read.key)
            for speaker in self._named(words):
                whole = speaker in read.texts
                yield Reach(speaker.name, read.key, certain=whole and _surely(read, speaker), whole=whole)

    def earlier(self) -> frozenset[str]:
        flow = self.facts.later
        step = flow.plan.steps[self.step.index]
        found = {speaker.name for speaker in audience.received_earlier_speakers(flow, step)}
        user = self.visible.earlier and self.visible.user
        for read in _shown(step, flow):
            words = flow.authors(read)
            left = [flow.earlier_authors(key) for key in words.before if not is_temporary(key)]
            # A function that may copy any text may copy older ones, too.
            copied = [words] if words.anybody else []
            for old in [*left, *copied]:
                found.update(speaker.name for speaker in self._named(old))
                user = user or old.user
        return frozenset([*found, *[USER] * user])

    def _named(self, words: Authors) -> list[Step]:
        """The agents whose texts these are, in the order of the plan."""
        found = self.models if words.anybody else words.steps
        return sorted(found, key=lambda step: step.index)

    def system(self) -> str:
        everywhere = self.facts.plan.root.node.given.get("global_instruction")
        texts = map(presentation.prompt_text, (everywhere, self.node.given.get("instruction")))
        return "\n\n".join(f'"{text}"' if text[:1] != "<" else text for text in filter(None, texts))

    def history(self) -> str:
        if self.visible.history == "none":
            return "SUPPRESSED"
        heard = [reach for reach in self._reaches if reach.key is None]
        passage = self.facts.flow.chunk_passage(self.step)
        upstream = self.facts.flow.upstream.get(self.step, ())
        part_of = {step.name for step in upstream} if passage else set[str]()
        labels = {name: f"{name} ({in_words(passage and passage.edge)})" for name in part_of}
        surely = [labels.get(reach.author, reach.author) for reach in heard if reach.certain]
        perhaps = [labels.get(reach.author, reach.author) for reach in heard if not reach.certain]
        names = "; ".join(filter(None, [", ".join(surely), "perhaps " * bool(perhaps) + ", ".join(perhaps)]))
        spec = self.node.annotations.context
        part = self.visible.history == "last" or (isinstance(spec, Context) and not spec.is_default)
        return f"{'PART, ' + self.visible.context_name if part else 'FULL'}: {names}"

    @cached_property
    def _tools(self) -> list[str]:
        names = [
            presentation.tool_name(tool) + " (a toolset)" * presentation.is_toolset(tool)
            for tool in self.node.tools
        ]
        return [*names, *([TRANSFER] if self._targets() else ())]

    def _targets(self) -> list[str]:
        """The names of the agents to which the model can transfer, as ADK offers them."""
        return [target.name for target in hand_over_targets(self.step)]

    def after(self) -> str:
        stored = self.writes()
        where = ", ".join(f'state["{key}"]' for key in stored)
        text = f"response stored → {where}" if stored else "response goes to the conversation"
        targets = self._targets()
        return f"{text}, or hands over to {presentation.listed(targets)}" if targets else text

    def unknown(self) -> tuple[str, ...]:
        return tuple(self._unknown())

    def _unknown(self) -> Iterator[str]:
        readers, _ = self.node.undeclared()
        asked = self.node.given.get("before_model_callback", ())  # these callbacks receive the request, too
        for reader in dict.fromkeys([*readers, *(fn for fn in asked if said(fn) is None)]):
            if isinstance(reader, Context):
                yield repr(reader)
            elif reader in self.node.tools:
                yield presentation.tool_name(reader)
            else:
                yield function_name(reader, "<lambda>")


_TEXT = "none, the answer is text"


def _constraint(schema: object, shape: str) -> str:
    if schema is None:
        return _TEXT
    fields = presentation.fields_of(schema)
    return f"must return JSON {shape}" if shape == fields.strip() else f"must return {shape}{fields}"


def _shown(step: Step, flow: Flow) -> list[Read]:
    """The reads whose values an agent's model receives, one for each key."""
    return list({read.key: read for read in flow.reads_of(step) if read.is_shown and read.reached}.values())


def _surely(read: Read, speaker: Step) -> bool:
    """True if the speaker's whole answer is in the instruction of every request of the reader."""
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
