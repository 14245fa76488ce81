"""Checks that a model can tell an agent's tools apart, can run them, and gets a description of each."""

from __future__ import annotations

import inspect
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from adk_fluent.analysis.audience import separating_composite, visible_history
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.history import branch_is_visible
from adk_fluent.analysis.plan import Step, at_most_three, hand_over_targets
from adk_fluent.context.spec import Context
from adk_fluent.contracts import issues
from adk_fluent.contracts.checks.resources import declared_functions
from adk_fluent.contracts.gemini_tools import gemini_tools, run_by_gemini
from adk_fluent.contracts.report import ContractIssue, Severity, built_in_checks, check
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.nodes import agent_of
from adk_fluent.ir.resources import wanted
from adk_fluent.ir.tools import agents_inside, tool_name
from adk_fluent.state.answers import returned_type

_LAMBDA: Final = "<lambda>"
_MOST_COMPARED: Final = 32
"""The check compares an agent with at most so many earlier agents with tools: all would be quadratic."""


@check(place=200)
def check_tool_contracts(root: object) -> list[ContractIssue]:
    """Check that tools have unique names, that models run them, and that agents see earlier tool calls."""
    facts = analyse(root)
    with_tools = [step for step in facts.steps if step.node.given.get("tools")]
    return [
        *(issue for step in with_tools for issue in _name_clashes(step)),
        *(
            issue
            for step in facts.steps
            if isinstance(step.node.runs, ByModel) and (built_in := run_by_gemini(step))
            for issue in gemini_tools(step, built_in, _given_by_adk(step))
        ),
        *(_hidden_calls(listener, missed) for listener, missed in unseen_tool_calls(facts, with_tools)),
    ]


def _name_clashes(step: Step) -> Iterator[ContractIssue]:
    names = [name for tool in step.node.tools if (name := tool_name(tool)) is not None]
    if _LAMBDA in names:
        yield issues.UnnamedTool(
            agent=step.name,
            message=f"{step.name} has a lambda as a tool, which has no name a model could call",
            hint="Write it as a function with a name and a docstring: the model gets both.",
        )
    for name, count in Counter(names).items():
        if count > 1 and name != _LAMBDA:
            yield issues.DuplicateTool(
                severity=Severity.ERROR,
                agent=step.name,
                message=f"{step.name} has {count} tools called {name!r}",
                hint="The model can choose any of them, but every call goes to the last. Rename the others.",
            )
    for name, surely in _given_by_adk(step).items():
        if name in names:
            gives = "gives" if surely else "may give"
            yield issues.DuplicateTool(
                severity=Severity.ERROR if surely else Severity.WARN,
                agent=step.name,
                message=f"{step.name} has a tool called {name!r}, and ADK {gives} it one of that name",
                hint="The model can choose either, but its calls reach only one of them. Rename yours.",
            )


def _given_by_adk(step: Step) -> Mapping[str, bool]:
    """The names of the tools that ADK itself declares for an agent; false for one that it may declare."""
    node, found = step.node, dict[str, bool]()
    if not agent_of(node):
        return found
    if hand_over_targets(step):
        found["transfer_to_agent"] = True
    if node.given.get("mode") == "task":
        found["finish_task"] = True
    elif returned_type(node) is not None and (surely := _answers_by_tool(step)) is not False:
        found["set_model_response"] = surely is True
    return found


def _answers_by_tool(step: Step) -> bool | None:
    """True if ADK adds a tool by which the model gives its typed answer; `None` if that is unknown.

    ADK does so unless the model supports an output schema together with tools, as Gemini on Vertex AI does.
    """
    from adk_fluent.cost.model_selection import chosen_by

    selector, name = chosen_by(step)
    held = (one.node.given.get("model") for one in (step, *step.above()))
    model: Any = next((one for one in held if one), None)
    if selector is not None:
        return None
    if type(model).__module__.endswith("lite_llm") or ("/" in name and not name.startswith("projects/")):
        return True if "claude" in name.casefold() else None  # LiteLLM would answer over the network
    if not isinstance(model, str) and hasattr(model, "capabilities"):
        with warnings.catch_warnings(action="ignore"):  # ADK warns about a model without a declaration
            return not model.capabilities.output_schema_and_tools
    is_gemini = not name or name.rpartition("/")[2].startswith("gemini-")
    return not (is_gemini and _is_on_vertex())


def _is_on_vertex() -> bool:
    """True if Gemini runs on Vertex AI here, as google-genai reads the environment."""
    old = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "")
    return os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE", old).strip().lower() in ("1", "true")


# --- agents in tools ---------------------------------------------------------------------------------


@check(place=206)
def check_agents_in_tools(root: object) -> list[ContractIssue]:
    """Report errors and warnings of agents that tools run, except those about keys of the caller's state.

    Report those of the agents inside a class of the user's, too: as possible, because only its code knows
    whether and when it runs them.
    """
    trees: dict[int, tuple[Node, Step]] = {}
    for step in analyse(root).steps:
        adopted = step.node.annotations.adopted
        inside = (*agents_inside(step.node.given.get("tools", ())), *(adopted.agents if adopted else ()))
        trees |= {id(tree): (tree, step) for tree in inside if isinstance(tree, Node)}
    return [
        _possible(found, step) if step.node.opaque else found
        for tree, step in trees.values()
        for facts in [Facts(tree, open_state=True)]
        for find in built_in_checks()
        for found in find(facts)
        if found.key is None and (found.severity is not Severity.INFO or _is_unreadable(found, step))
    ]


def _is_unreadable(found: ContractIssue, step: Step) -> bool:
    """True for a placeholder that ADK cannot read, in an agent inside a class of the user's."""
    return step.node.opaque and isinstance(found, issues.LiteralPlaceholder)


def _possible(found: ContractIssue, step: Step) -> ContractIssue:
    """The finding about an agent inside a class of the user's, at most a warning, that names the class."""
    kind = type(step.node.given["native"].value).__name__
    hint = f"{found.hint}\nIt is inside {step.name}: whether it runs is known only to the code of {kind}."
    severity = Severity.INFO if found.severity is Severity.INFO else Severity.WARN
    return replace(found, severity=severity, hint=hint)


# --- earlier tool calls ---------------------------------------------------------------------------


def unseen_tool_calls(facts: Facts, with_tools: list[Step]) -> Iterator[tuple[Step, list[Step]]]:
    """The agents with tools, each with the earlier agents whose tool calls its context leaves out."""
    for position, listener in enumerate(with_tools):
        spec = listener.node.annotations.context
        if isinstance(spec, Context) and facts.reaches(listener):
            earlier = with_tools[max(position - _MOST_COMPARED, 0) : position]
            missed = [caller for caller in earlier if _misses(listener, caller, spec, facts)]
            if missed:
                yield listener, missed


def _hidden_calls(listener: Step, missed: list[Step]) -> ContractIssue:
    names = at_most_three([caller.name for caller in missed])
    shown = visible_history(listener.node).context_name
    return issues.ToolHistory(
        severity=Severity.INFO,
        agent=listener.name,
        message=f"{listener.name} has {shown}, which leaves out the tool calls of {names}",
        hint="C.default() would show them. If they matter, add "
        f'.context(C.from_agents("{missed[-1].origin}").as_contents()): it sends them as they were.',
    )


def _misses(listener: Step, caller: Step, spec: Context, facts: Facts) -> bool:
    """True if a listener's context leaves out the caller's tool calls, which its history contains."""
    if (
        not facts.reaches(caller)
        or caller is listener
        or not branch_is_visible(caller.branch, listener.branch)
    ):
        return False
    if separating_composite(caller, listener) is not None:
        return False
    return visible_history(listener.node).admits(caller) == "no" or spec.drops_calls


# --- descriptions ---------------------------------------------------------------------------------


_TELLING: Final = ("instruction", "static_instruction", "output_schema", "written_fields")
"""The fields of an agent that describe the task to its model; any one of them is enough."""
_ADDING: Final = ("before_agent_callback", "before_model_callback")
"""The callbacks that may add an instruction to a request."""


@check(place=250)
def check_descriptions(root: object) -> list[ContractIssue]:
    """Check that each agent has an instruction, and each tool a docstring and typed parameters."""
    facts = analyse(root)
    return [*_uninstructed(facts), *_undescribed(facts)]


# --- agents without an instruction ----------------------------------------------------------------


def _uninstructed(facts: Facts) -> Iterator[ContractIssue]:
    """One note about all agents whose models get the conversation and no instruction."""
    found = [step for step in facts.steps if _has_no_instruction(step)]
    if found:
        names = [step.name for step in found]
        one = len(found) == 1
        yield issues.NoInstruction(
            severity=Severity.INFO,
            agent=names[0],
            message=f"{at_most_three(names)} {'has' if one else 'have'} no instruction",
            hint=f"{'Its model is' if one else 'Their models are'} sent the conversation alone. "
            "Say what to do: .instruct(...).",
        )


def _has_no_instruction(step: Step) -> bool:
    """True if the model of an agent gets no instruction; false for an agent that was built with ADK."""
    node = step.node
    if not agent_of(node) or node.annotations.adopted is not None:
        return False
    given = node.given
    if any(given.get(field) for field in _TELLING) or any(given.get(field) for field in _ADDING):
        return False
    spec = node.annotations.context
    if isinstance(spec, Context) and spec.templates:
        return False
    return not any(each.node.given.get("global_instruction") for each in (step, *step.above()))


# --- tools without a description ------------------------------------------------------------------


def _undescribed(facts: Facts) -> Iterator[ContractIssue]:
    """One note about each tool function that has no docstring, or a parameter without a type."""
    known = set[int]()
    for step in facts.steps:
        agent = agent_of(step.node)
        if not agent or "tools" not in agent.given:
            continue
        around = (step, *step.above())
        resources = {name for each in around for name, _ in each.node.annotations.resources}
        for function, _ in declared_functions(agent.tools):
            if id(function) not in known and (lacks := _lacking(function, resources)):
                known.add(id(function))
                yield _undescribed_tool(step, function, lacks)


def _undescribed_tool(step: Step, function: Callable[..., Any], lacks: list[str]) -> ContractIssue:
    name = _function_name(function)
    return issues.UndescribedTool(
        severity=Severity.INFO,
        agent=step.name,
        message=f"{step.name} has the tool {name!r} without {' and '.join(lacks)}",
        hint="A model knows nothing else about a tool. Write a docstring that says what it does, and the "
        "type of each parameter.",
    )


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _lacking(function: Callable[..., Any], resources: set[str]) -> list[str]:
    """The parts of a tool's description that a function lacks: a docstring, types of its parameters."""
    module = getattr(function, "__module__", None) or type(function).__module__
    if module.startswith(("google.adk.", "adk_fluent.")) or _function_name(function) == _LAMBDA:
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C
        return []
    hidden = {"tool_context", "input_stream", *wanted(function, resources)}
    untyped = [
        repr(one.name)
        for one in parameters
        if one.annotation is one.empty
        and one.name not in hidden
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    called = function if inspect.isroutine(function) else type(function).__call__
    documented = inspect.getdoc(function) or inspect.getdoc(called)
    types = [f"the type{'s' * (len(untyped) > 1)} of {at_most_three(untyped)}"] if untyped else []
    return [*["a docstring"] * (not documented), *types]
