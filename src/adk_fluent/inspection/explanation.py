"""`.explain()` and `.data_flow()`: reports on the agents of an expression before it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from adk_fluent import _html as html
from adk_fluent.analysis.audience import visible_history
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.context.spec import Context
from adk_fluent.contracts.check import check_all
from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity
from adk_fluent.contracts.tree_rules import checked_facts
from adk_fluent.inspection import presentation
from adk_fluent.inspection.anatomy import LlmAnatomy, llm_anatomy, shown_keys
from adk_fluent.ir.annotations import Modality, Visibility
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.nodes import CALLBACKS, AgentNode, NativeNode, RemoteAgentNode, agent_of

CONCERNS: Final = ("reads", "accepts", "returns", "writes", "contract")
"""The lines of a `DataFlow`."""

LINES: Final = ("system", "history", "context", "tools", "constraint", "after")
"""The lines of an `LlmAnatomy`."""


@frozen
class AgentPicture(Frozen):
    """The report on one agent.

    Attributes:
        agent: the agent's unique name.
        kind: `agent` or `remote`.
        model: the name of the model, or the endpoint of a remote agent; empty if ADK chooses the model.
        description: the description for other agents.
        instruction: the instruction, with unfilled placeholders.
        data_flow: the five concerns.
        anatomy: the request to the model; `None` for a remote agent.
        middleware: the class names of the middleware around the agent, the outermost first.
        callbacks: each hook, such as `before_model`, with the names of its functions in order.
        children: the agent's own sub-agents, to which it can transfer the conversation.
        visibility: `user`, `internal` or `zero_cost`.
        issues: the findings of the contract check about this agent, without promises that hold.
    """

    agent: str
    kind: str
    data_flow: DataFlow
    visibility: Visibility
    model: str = ""
    description: str = ""
    instruction: str = ""
    anatomy: LlmAnatomy | None = None
    middleware: tuple[str, ...] = ()
    callbacks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    children: tuple[str, ...] = ()
    issues: tuple[ContractIssue, ...] = ()

    def __str__(self) -> str:
        """One line for each label, then the findings."""
        rows = [row for row in self.rows() if row[1]]
        lines = [f"{self.agent} ({self.kind})"]
        lines += [presentation.hanging(f"  {label + ':':<13} ", text) for label, text in rows]
        lines += [presentation.hanging("  ", str(issue)) for issue in self.issues]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The report as JSON-able values; `anatomy` is `None` for a remote agent."""
        flow, seen = self.data_flow, self.anatomy
        sent = seen and {
            **{name: getattr(seen, name) for name in LINES},
            **{
                name: sorted(getattr(seen, name))
                for name in ("sees", "certain", "hides", "earlier", "doubled")
            },
            "keys": list(seen.keys),
            "tool_names": list(seen.tool_names),
            "unknown": list(seen.unknown),
        }
        return {
            "agent": self.agent,
            "kind": self.kind,
            "model": self.model,
            "description": self.description,
            "instruction": self.instruction,
            "data_flow": {name: getattr(flow, name) for name in CONCERNS},
            "anatomy": sent,
            "middleware": list(self.middleware),
            "callbacks": {where: list(names) for where, names in self.callbacks},
            "children": list(self.children),
            "visibility": self.visibility,
            "issues": [issue.code for issue in self.issues],
        }

    def _repr_html_(self) -> str:
        return presentation.tables({self.agent: self})

    def rows(self) -> Iterator[tuple[str, str]]:
        """The labels and texts of the report; an empty text is not shown."""
        yield "model", self.model or presentation.no_model()
        yield "description", self.description
        yield "instruction", f'"{self.instruction}"' if self.instruction else ""
        yield from ((concern, getattr(self.data_flow, concern)) for concern in CONCERNS)
        if (anatomy := self.anatomy) is not None:
            yield "history", anatomy.history
            yield "sees twice", ", ".join(sorted(anatomy.doubled))
            yield "tools", anatomy.tools
            yield "unknown", ", ".join(anatomy.unknown)
        yield "middleware", ", ".join(self.middleware)
        yield "callbacks", "; ".join(f"{where}: {', '.join(names)}" for where, names in self.callbacks)
        yield "children", ", ".join(self.children)
        yield "visibility", self.visibility


@frozen
class Explanation(Frozen):
    """The report on a whole expression; `str()` returns plain text.

    Attributes:
        shape: the outline, one step a line, with the state keys that it reads and writes, and its artifacts
            in brackets.
        agents: the report on each agent.
        report: the whole contract report.
    """

    shape: str
    agents: presentation.PerAgent[AgentPicture]
    report: ContractReport

    def to_json(self) -> str:
        """The report as JSON; the layout is stable, and its `version` is 1."""
        agents = [agent.data() for agent in self.agents.values()]
        report = json.loads(self.report.to_json())
        found = {"version": 1, "shape": self.shape, "agents": agents, "report": report}
        return json.dumps(found, indent=2, ensure_ascii=False)

    def _repr_html_(self) -> str:
        """HTML for a notebook: the outline, a table for each agent, and all findings."""
        return html.preformatted(self.shape) + presentation.tables(self.agents) + self.report._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the name is Jupyter's

    def __str__(self) -> str:
        """The outline, each agent, and the findings that concern no agent."""
        of_agents = {issue for agent in self.agents.values() for issue in agent.issues}
        others = [issue for issue in _findings(self.report) if issue not in of_agents]
        blocks = [self.shape] if len(self.agents) != 1 or "\n" in self.shape else []
        blocks += [str(agent) for agent in self.agents.values()]
        if others:
            blocks.append("\n".join(map(str, others)))
        return "\n\n".join(blocks)


def explain(subject: object) -> Explanation:
    """Report everything that is known about an expression before a run.

    Args:
        subject: an expression, an IR node, or a native agent or `App` that adk-fluent built.

    Example:
        >>> from adk_fluent import Agent, S
        >>> print(explain(Agent("a").writes("x") >> S.rename(x="y") >> Agent("b").reads("y")).shape)
        sequence
          a (agent) → x
          rename (transform) x → y
          b (agent) y →
    """
    facts = checked_facts(subject)
    report = check_all(subject)
    flows, anatomies = data_flow(facts), llm_anatomy(facts)
    pictures = (
        (step.name, _picture(step, flows[step.name], anatomies.get(step.name), facts, report))
        for step in facts.steps
        if step.is_model
    )
    agents = presentation.PerAgent(pictures)
    return Explanation(shape="\n".join(_outline(facts)), agents=agents, report=report)


def _findings(report: ContractReport) -> list[ContractIssue]:
    return [issue for issue in report.issues if issue.severity is not Severity.OK]


def _picture(
    step: Step, flow: DataFlow, anatomy: LlmAnatomy | None, facts: Facts, report: ContractReport
) -> AgentPicture:
    node: AgentNode | RemoteAgentNode | NativeNode = step.node
    given = node.given
    description = given.get("description")
    return AgentPicture(
        agent=step.name,
        kind=node.kind,
        model=_model(node),
        description=description if isinstance(description, str) else "",
        instruction=presentation.prompt_text(given.get("instruction")),
        data_flow=flow,
        anatomy=anatomy,
        middleware=_middleware(step),
        callbacks=tuple(_callbacks(given)),
        children=tuple(child.name for child in step.children),
        visibility=facts.visibility[step.name],
        issues=tuple(issue for issue in _findings(report) if issue.agent == step.name),
    )


def _model(node: Node) -> str:
    if not (agent := agent_of(node)):
        return node.endpoint if isinstance(node, RemoteAgentNode) else ""  # natives say nothing
    if agent.selector is not None:
        names = ", ".join(candidate.model for candidate in agent.selector.candidates)
        return f"{agent.selector.strategy} of {names}"
    model = None if agent.model is UNSET else agent.model
    return model if isinstance(model, str) else getattr(model, "model", "") or ""


def _middleware(step: Step) -> tuple[str, ...]:
    """The class names of the middleware around an agent, from the outermost; each object once."""
    around = (*reversed([*step.above()]), step)
    found = {id(each): each for one in around for each in one.node.annotations.middleware}
    return tuple(type(each).__name__ for each in found.values())


def _callbacks(given: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in CALLBACKS:
        functions: tuple[object, ...] = given.get(field, ())
        if functions:
            names = tuple(function_name(function, "<lambda>") for function in functions)
            yield field.removesuffix("_callback"), names


def _outline(facts: Facts) -> Iterator[str]:
    """The lines of `Explanation.shape`."""
    for step in facts.steps:
        depth = sum(1 for _ in step.above())
        kind = step.node.kind.removeprefix("known_")  # a native agent, whether or not it could be read
        kind = f" ({kind})" * (not step.name.startswith(kind))
        uses = [(use.how, use.filename or "*") for use in step.node.artifact_uses()]
        taken = [f"[{name}]" for how, name in uses if how != "saves"]
        saved = [f"[{name}]" for how, name in uses if how == "saves"]
        reads = ", ".join(dict.fromkeys([*(read.key for read in facts.reads_of(step)), *taken]))
        writes = ", ".join(dict.fromkeys([*facts.writes_of(step), *saved]))
        keys = f" {reads} → {writes}".replace("  ", " ").rstrip() if reads or writes else ""
        yield f"{'  ' * depth}{step.name}{kind}{keys}"


# --- the five concerns of an agent ------------------------------------------------------------------

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
        return [(name, getattr(self, name)) for name in CONCERNS]

    def __str__(self) -> str:
        """One line for each concern, below a title."""
        return "\n".join([_TITLE, *(f"  {name + ':':<9} {text}" for name, text in self.rows())])

    def _repr_html_(self) -> str:
        return presentation.tables({self.agent: self})


class DataFlows(presentation.PerAgent[DataFlow]):
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


def _flow_of(step: Step, facts: Facts) -> DataFlow:
    node: AgentNode | RemoteAgentNode = step.node
    given = node.given
    context, prompt = shown_keys(step, facts)
    spec = node.annotations.context
    taken = given.get("input_schema")
    answer, shape = presentation.answer_shape(node)
    stored = facts.writes_of(step)
    return DataFlow(
        agent=step.name,
        reads=_reads(step, context, prompt),
        accepts=_accepts(node, taken),
        returns=f"structured JSON → {shape}{presentation.asked_again(node)}" if answer else _PLAIN,
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
    shown = f"{presentation.type_name(schema)}{presentation.fields_of(schema)}" if schema else ""
    content = node.annotations.content
    kinds = sorted(kind.value for kind in content.input_modalities) if content else []
    if content and content.input_modalities != frozenset({Modality.TEXT}):
        shown = ", ".join([*filter(None, [shown]), *kinds])
    return shown or "(not set — accepts any input as tool)"


def _contract(node: AgentNode | RemoteAgentNode) -> str:
    given = node.given
    named = {"produces": given.get("produces_type"), "consumes": given.get("consumes_type")}
    types = ", ".join(f"{word} {presentation.type_name(model)}" for word, model in named.items() if model)
    return types or presentation.NOT_SET
