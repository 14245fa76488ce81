"""`.data_flow()`: the five concerns of each agent: what it reads, accepts, returns, writes and promises."""

from __future__ import annotations

from adk_fluent.analysis.audience import sight_of
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.context.spec import Context
from adk_fluent.contracts.tree_rules import checked_facts
from adk_fluent.inspection.per_agent import PerAgent, tables
from adk_fluent.inspection.wording import NOT_SET, answer_shape, asked_again, fields_of, type_name
from adk_fluent.ir.annotations import Modality
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode

_TITLE = "Data Flow:"
_PLAIN = "(not set — plain text)"


@frozen
class DataFlow(Frozen):
    """What goes into one agent and comes out of it, as it was declared.

    The first five are the lines that `str()` shows; the others are the same as values.

    Attributes:
        reads: what it is shown of conversation and state.
        accepts: what it takes as a tool of another agent.
        returns: the shape of its answer.
        writes: where its answer is stored.
        contract: what `.produces` and `.consumes` say.
        agent: its unique name.
        context: its context spec, if it has one.
        keys: the state keys it is shown, by its context first, then by placeholders.
        stored: the state keys it writes.
        input_schema: the type it takes as a tool.
        output_schema: the type it answers with; `None` for text.
        produces: the model that `.produces` names.
        consumes: the model that `.consumes` names.
    """

    agent: str
    reads: str
    accepts: str
    returns: str
    writes: str
    contract: str
    context: Context | None = None
    keys: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    input_schema: object = None
    output_schema: object = None
    produces: type | None = None
    consumes: type | None = None

    def rows(self) -> list[tuple[str, str]]:
        """The five concerns, by name."""
        names = ("reads", "accepts", "returns", "writes", "contract")
        return [(name, getattr(self, name)) for name in names]

    def __str__(self) -> str:
        """A line for each concern."""
        return "\n".join([_TITLE, *(f"  {name + ':':<9} {text}" for name, text in self.rows())])

    def _repr_html_(self) -> str:
        return tables({self.agent: self})


class DataFlows(PerAgent[DataFlow]):
    """The five concerns of each agent; `str()` names the agents where there are several."""

    __slots__ = ()

    def __str__(self) -> str:
        if len(self) < 2:
            return super().__str__()
        return "\n\n".join(f"{_TITLE} {name}{str(flow).removeprefix(_TITLE)}" for name, flow in self.items())


def data_flow(subject: object) -> DataFlows:
    """Show what each agent reads, accepts, returns, writes and promises, remote agents included.

    Args:
        subject: an expression, an IR node, or a native agent or `App` that adk-fluent built.

    Example:
        >>> from adk_fluent import Agent
        >>> print(data_flow(Agent("helper").reads("topic").writes("answer")))
        Data Flow:
          reads:    C.from_state('topic') — state keys only
          accepts:  (not set — accepts any input as tool)
          returns:  (not set — plain text)
          writes:   state['answer']
          contract: (not set)
    """
    facts = checked_facts(subject)
    return DataFlows((step.name, _flow_of(step, facts)) for step in facts.steps if step.is_model)


def shown_keys(step: Step, facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The state keys whose values an agent's model is shown: by its context, and by its instruction."""
    reads = list(facts.reads_of(step))
    context = dict.fromkeys(read.key for read in reads if read.via in ("context", "remote"))
    prompt = dict.fromkeys(read.key for read in reads if read.via in ("template", "prompt"))
    return tuple(context), tuple(prompt)


def _flow_of(step: Step, facts: Facts) -> DataFlow:
    node: AgentNode | RemoteAgentNode = step.node
    given = node.given
    context, prompt = shown_keys(step, facts)
    spec = node.annotations.context
    taken = given.get("input_schema")
    answer, shape = answer_shape(node)
    stored = facts.writes_of(step)
    return DataFlow(
        agent=step.name,
        reads=_reads(step, context, prompt),
        accepts=_accepts(node, taken),
        returns=f"structured JSON → {shape}{asked_again(node)}" if answer else _PLAIN,
        writes=", ".join(f"state[{key!r}]" for key in stored) or "(not set — only the conversation)",
        contract=_contract(node),
        context=spec if isinstance(spec, Context) else None,
        keys=tuple(dict.fromkeys((*context, *prompt))),
        stored=stored,
        input_schema=taken,
        output_schema=answer,
        produces=given.get("produces_type"),
        consumes=given.get("consumes_type"),
    )


def _reads(step: Step, context: tuple[str, ...], prompt: tuple[str, ...]) -> str:
    node = step.node
    if not isinstance(node.runs, ByModel):  # another process asks the model
        return ", ".join(f"state[{key!r}]" for key in context) or "the conversation"
    spec = node.annotations.context
    text = repr(spec) if isinstance(spec, Context) else sight_of(node).shown
    text += f" — {_seen(step, spec)}"
    return text + "".join(f", {{{key}}}" for key in prompt)


def _seen(step: Step, spec: object) -> str:
    sight = sight_of(step.node)
    if isinstance(spec, Context) and spec.seen_in_words:
        return spec.seen_in_words
    if sight.history == "none":
        return "the current user message only"
    if sight.history == "last":
        return "what was said last"
    return "the whole conversation" if sight.is_whole else "part of the conversation"


def _accepts(node: AgentNode | RemoteAgentNode, schema: object) -> str:
    shown = f"{type_name(schema)}{fields_of(schema)}" if schema else ""
    content = node.annotations.content
    kinds = sorted(kind.value for kind in content.input_modalities) if content else []
    if content and content.input_modalities != frozenset({Modality.TEXT}):
        shown = ", ".join([*filter(None, [shown]), *kinds])
    return shown or "(not set — accepts any input as tool)"


def _contract(node: AgentNode | RemoteAgentNode) -> str:
    given = node.given
    named = {"produces": given.get("produces_type"), "consumes": given.get("consumes_type")}
    return ", ".join(f"{word} {type_name(model)}" for word, model in named.items() if model) or NOT_SET
