"""`.data_flow()`: five concerns of each agent: what it reads, accepts, returns, writes and promises."""

from __future__ import annotations

from adk_fluent.analysis.audience import visible_history
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.context.spec import Context
from adk_fluent.contracts.tree_rules import checked_facts
from adk_fluent.inspection.presentation import (
    NOT_SET,
    PerAgent,
    answer_shape,
    asked_again,
    fields_of,
    tables,
    type_name,
)
from adk_fluent.ir.annotations import Modality
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode

_TITLE = "Data Flow:"
_PLAIN = "(not set — plain text)"


@frozen
class DataFlow(Frozen):
    """The declared inputs and outputs of one agent.

    The first five attributes are the lines of `str()`; the others hold the same facts as values.

    Attributes:
        reads: the parts of conversation and state that the agent's model receives.
        accepts: the input of the agent as a tool of another agent.
        returns: the type of the agent's answer.
        writes: the state keys that store the answer.
        contract: the types of `.produces` and `.consumes`.
        agent: the agent's unique name.
        context: the agent's context spec, or `None`.
        keys: the state keys that the model receives: first those of the context, then the placeholders.
        stored: the state keys that the agent writes.
        input_schema: the type of the agent's input as a tool.
        output_schema: the type of the answer; `None` for text.
        produces: the type given to `.produces`, or `None`.
        consumes: the type given to `.consumes`, or `None`.
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
        """The name and text of each of the five concerns."""
        names = ("reads", "accepts", "returns", "writes", "contract")
        return [(name, getattr(self, name)) for name in names]

    def __str__(self) -> str:
        """One line for each concern, below a title."""
        return "\n".join([_TITLE, *(f"  {name + ':':<9} {text}" for name, text in self.rows())])

    def _repr_html_(self) -> str:
        return tables({self.agent: self})


class DataFlows(PerAgent[DataFlow]):
    """The five concerns of each agent; `str()` names the agents if there are several."""

    __slots__ = ()

    def __str__(self) -> str:
        if len(self) < 2:
            return super().__str__()
        return "\n\n".join(f"{_TITLE} {name}{str(flow).removeprefix(_TITLE)}" for name, flow in self.items())


def data_flow(subject: object) -> DataFlows:
    """Show what each agent reads, accepts, returns, writes and promises; remote agents are included.

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
    """The state keys whose values an agent's model receives: those of its context, and its placeholders."""
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
    text = repr(spec) if isinstance(spec, Context) else visible_history(node).context_name
    text += f" — {_seen(step, spec)}"
    return text + "".join(f", {{{key}}}" for key in prompt)


def _seen(step: Step, spec: object) -> str:
    visible = visible_history(step.node)
    if isinstance(spec, Context) and spec.seen_in_words:
        return spec.seen_in_words
    if visible.history == "none":
        return "the current user message only"
    if visible.history == "last":
        return "what was said last"
    return "the whole conversation" if visible.is_whole else "part of the conversation"


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
