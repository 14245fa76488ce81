"""Tools can be told apart, and an agent knows what others did with theirs."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three, hand_over_targets
from adk_fluent.analysis.talk.audience import apart
from adk_fluent.analysis.talk.history import audible
from adk_fluent.analysis.talk.sight import sight_of
from adk_fluent.context.spec import Context
from adk_fluent.contracts.issues import DuplicateTool, GeminiTool, ToolHistory, UnnamedTool
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.tools import innermost, tool_name
from adk_fluent.state.answers import returned_type

_ONLY_GEMINI: Final = frozenset(
    {
        *("GoogleSearchTool", "UrlContextTool", "EnterpriseWebSearchTool", "GoogleMapsGroundingTool"),
        *("VertexAiSearchTool", "BuiltInCodeExecutor", "GoogleSearch", "UrlContext", "VertexAiSearch"),
    }
)
"""Classes of tools that Gemini runs itself; ADK fails where another model has one."""
_OTHERS: Final = frozenset(
    {
        *("openai", "anthropic", "azure", "bedrock", "cohere", "cohere_chat", "deepseek", "groq", "mistral"),
        *("ollama", "ollama_chat", "xai", "fireworks_ai", "together_ai", "perplexity", "huggingface"),
    }
)
"""How models of other providers begin, before the slash."""
_LAMBDA = "<lambda>"
_LOOKED_AT = 32
"""So many agents with tools before one are asked whether it sees what their tools did."""


@check(place=200)
def check_tool_contracts(root: object) -> list[ContractIssue]:
    """Tools have names of their own, a model that runs them, and no earlier tool calls are missed."""
    facts = analyse(root)
    with_tools = [step for step in facts.steps if step.node.given.get("tools")]
    return [
        *(issue for step in with_tools for issue in _names(step)),
        *(issue for step in facts.steps if isinstance(step.node.runs, ByModel) for issue in _not_run(step)),
        *(_left_out(listener, missed) for listener, missed in unseen(facts, with_tools)),
    ]


def _names(step: Step) -> Iterator[ContractIssue]:
    names = [name for tool in step.node.tools if (name := tool_name(tool)) is not None]
    if _LAMBDA in names:
        yield UnnamedTool(
            agent=step.name,
            message=f"{step.name} has a lambda as a tool, which has no name a model could call",
            hint="Write it as a function with a name and a docstring: the model is told both.",
        )
    for name, count in Counter(names).items():
        if count > 1 and name != _LAMBDA:
            yield DuplicateTool(
                severity=Severity.ERROR,
                agent=step.name,
                message=f"{step.name} has {count} tools called {name!r}",
                hint="The model is offered all of them, and every call goes to the last. Rename the others.",
            )
    for name, surely in _given_by_adk(step).items():
        if name in names:
            gives = "gives" if surely else "may give"
            yield DuplicateTool(
                severity=Severity.ERROR if surely else Severity.WARN,
                agent=step.name,
                message=f"{step.name} has a tool called {name!r}, and ADK {gives} it one of that name",
                hint="The model is offered both, and its calls reach only one of them. Rename yours.",
            )


def _given_by_adk(step: Step) -> Mapping[str, bool]:
    """The names of the tools that ADK itself declares for an agent; false for one that it may declare."""
    node, found = step.node, dict[str, bool]()
    if not node.agent:
        return found
    if hand_over_targets(step):
        found["transfer_to_agent"] = True
    if node.given.get("mode") == "task":
        found["finish_task"] = True
    elif returned_type(node) is not None and (surely := _answers_by_tool(step)) is not False:
        found["set_model_response"] = surely is True
    return found


def _answers_by_tool(step: Step) -> bool | None:
    """Whether ADK has the model of an agent with tools give a typed answer by a tool; `None` if unknown.

    It does unless the model can be asked for a type beside tools: Gemini on Vertex AI can, and some others.
    """
    from adk_fluent.cost.model_selection import chosen_by  # few agents have a tool of that name

    selector, name = chosen_by(step)
    held = (one.node.given.get("model") for one in (step, *step.above()))
    model: Any = next((one for one in held if one), None)
    if selector is not None:
        return None
    if type(model).__module__.endswith("lite_llm") or ("/" in name and not name.startswith("projects/")):
        return True if "claude" in name.casefold() else None  # asking LiteLLM would reach out
    if not isinstance(model, str) and hasattr(model, "capabilities"):
        with warnings.catch_warnings(action="ignore"):  # of a model that leaves it to its name
            return not model.capabilities.output_schema_and_tools
    is_gemini = not name or name.rpartition("/")[2].startswith("gemini-")
    return not (is_gemini and _is_on_vertex())


def _is_on_vertex() -> bool:
    """Whether Gemini is asked on Vertex AI here, as google-genai reads the environment."""
    old = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "")
    return os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE", old).strip().lower() in ("1", "true")


def _not_run(step: Step) -> Iterator[ContractIssue]:
    """Tools that Gemini alone runs, where the model is known to be another."""
    given = step.node.given
    executor = given.get("code_executor")
    built_in = [
        part
        for tool in (*given.get("tools", ()), *([executor] if executor else ()))
        for part in innermost(tool)
        if type(part).__name__ in _ONLY_GEMINI
        and type(part).__module__.startswith(("google.adk.", "adk_fluent."))
    ]
    if not built_in:
        return
    from adk_fluent.cost.model_selection import chosen_by  # few agents have such a tool

    for part in built_in:
        own = getattr(part, "model", None)
        model = own if isinstance(own, str) and own else chosen_by(step)[1]
        if _is_of_another(model):
            name = tool_name(part) if hasattr(part, "name") or hasattr(part, "called") else None
            yield GeminiTool(
                severity=Severity.ERROR,
                agent=step.name,
                message=f"{step.name} has {name or type(part).__name__}, which only Gemini runs, "
                f"and its model is {model}",
                hint="ADK refuses its first call. Give the tool to an agent with a Gemini model, "
                "and that agent to this one: .tools(T.agent(...)).",
            )


def _is_of_another(model: str) -> bool:
    provider, _, name = model.casefold().partition("/")
    return "gemini" not in model.casefold() and (
        (provider in _OTHERS and bool(name)) or model.casefold().startswith(("claude-", "gpt-"))
    )


# --- what earlier tools did -----------------------------------------------------------------------


def unseen(facts: Facts, with_tools: list[Step]) -> Iterator[tuple[Step, list[Step]]]:
    """Agents with tools, each with those before it whose tool calls its context leaves out."""
    for position, listener in enumerate(with_tools):
        spec = listener.node.annotations.context
        if isinstance(spec, Context) and facts.reaches(listener):
            earlier = with_tools[max(position - _LOOKED_AT, 0) : position]
            missed = [caller for caller in earlier if _misses(listener, caller, spec, facts)]
            if missed:
                yield listener, missed


def _left_out(listener: Step, missed: list[Step]) -> ContractIssue:
    names = at_most_three([caller.name for caller in missed])
    shown = sight_of(listener.node).shown
    return ToolHistory(
        severity=Severity.INFO,
        agent=listener.name,
        message=f"{listener.name} has {shown}, which leaves out the tool calls of {names}",
        hint="C.default() would show them. If they matter, add "
        f'.context(C.from_agents("{missed[-1].origin}").as_contents()): it sends them as they were.',
    )


def _misses(listener: Step, caller: Step, spec: Context, facts: Facts) -> bool:
    """Whether a context leaves out tool calls that are in the conversation an agent could see."""
    if not facts.reaches(caller) or caller is listener or not audible(caller.branch, listener.branch):
        return False
    if apart(caller, listener) is not None:
        return False
    return sight_of(listener.node).admits(caller) == "no" or spec.drops_calls
