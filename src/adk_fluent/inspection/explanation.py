"""`.explain()`: a report of everything that is known about an expression before it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from adk_fluent import _html as html
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.check import check_all
from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity
from adk_fluent.contracts.tree_rules import checked_facts
from adk_fluent.inspection.anatomy import LlmAnatomy, llm_anatomy
from adk_fluent.inspection.concerns import DataFlow, data_flow
from adk_fluent.inspection.presentation import PerAgent, hanging, no_model, prompt_text, tables
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import UNSET, Node
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
        lines += [hanging(f"  {label + ':':<13} ", text) for label, text in rows]
        lines += [hanging("  ", str(issue)) for issue in self.issues]
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
        return tables({self.agent: self})

    def rows(self) -> Iterator[tuple[str, str]]:
        """The labels and texts of the report; an empty text is not shown."""
        yield "model", self.model or no_model()
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
    agents: PerAgent[AgentPicture]
    report: ContractReport

    def to_json(self) -> str:
        """The report as JSON; the layout is stable, and its `version` is 1."""
        agents = [agent.data() for agent in self.agents.values()]
        report = json.loads(self.report.to_json())
        found = {"version": 1, "shape": self.shape, "agents": agents, "report": report}
        return json.dumps(found, indent=2, ensure_ascii=False)

    def _repr_html_(self) -> str:
        """HTML for a notebook: the outline, a table for each agent, and all findings."""
        return html.preformatted(self.shape) + tables(self.agents) + self.report._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the name is Jupyter's

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
    return Explanation(shape="\n".join(_outline(facts)), agents=PerAgent(pictures), report=report)


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
        instruction=prompt_text(given.get("instruction")),
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
