"""Checks of the tools that Gemini runs: that the model is a Gemini, and takes functions beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from adk_fluent.analysis.plan import Step, at_most_three, hand_over_targets
from adk_fluent.contracts import issues
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.tools import innermost, tool_name

_ONLY_GEMINI: Final = frozenset(
    {
        *("GoogleSearchTool", "UrlContextTool", "EnterpriseWebSearchTool", "GoogleMapsGroundingTool"),
        *("VertexAiSearchTool", "BuiltInCodeExecutor", "GoogleSearch", "UrlContext", "VertexAiSearch"),
    }
)
"""Classes of tools that Gemini runs itself; ADK raises an error if another model has one."""
_SEARCHES: Final = frozenset(
    {
        *("GoogleSearchTool", "VertexAiSearchTool", "EnterpriseWebSearchTool"),
        *("GoogleSearch", "VertexAiSearch"),
    }
)
"""Classes of the tools among them for which ADK refuses an agent that hands over to sub-agents."""
_NO_FUNCTION: Final = frozenset({"PreloadMemoryTool", "ExampleTool"})
"""Classes of ADK's tools that add text to a request, and no function that a model could call."""
_OTHERS: Final = frozenset(
    {
        *("openai", "anthropic", "azure", "bedrock", "cohere", "cohere_chat", "deepseek", "groq", "mistral"),
        *("ollama", "ollama_chat", "xai", "fireworks_ai", "together_ai", "perplexity", "huggingface"),
    }
)
"""Prefixes, before the slash, of the models of other providers."""

BuiltIn = list[tuple[object, str]]
"""Tools that Gemini runs itself, each with the name of the model that gets it."""


def gemini_tools(step: Step, built_in: BuiltIn, given: Mapping[str, bool]) -> Iterator[ContractIssue]:
    """Report the tools of an agent that its model does not run, or not beside the functions that it gets.

    Args:
        step: the agent.
        built_in: its tools that Gemini runs itself, of `run_by_gemini`.
        given: the functions that ADK itself offers to the model; false for one that it may offer.
    """
    yield from _of_others(step, built_in)
    yield from _beside_functions(step, built_in, given)


def _of_others(step: Step, built_in: BuiltIn) -> Iterator[ContractIssue]:
    """Report tools that only Gemini can run, if the agent's model is certainly another."""
    for part, model in built_in:
        if _is_of_another(model):
            yield issues.GeminiTool(
                severity=Severity.ERROR,
                agent=step.name,
                message=f"{step.name} has {_shown(part)}, which only Gemini runs, and its model is {model}",
                hint="ADK refuses its first call. Give the tool to an agent with a Gemini model, "
                "and that agent to this one: .tools(T.agent(...)).",
            )


def run_by_gemini(step: Step) -> BuiltIn:
    """The tools of an agent that Gemini runs itself, each with the name of the model that gets it."""
    given = step.node.given
    tools, executor = given.get("tools", ()), given.get("code_executor")
    if not (tools or executor):
        return []
    tools = (*tools, *([executor] if executor else ()))
    found = [part for tool in tools for part in innermost(tool) if _adk_classes(part) & _ONLY_GEMINI]
    if not found:
        return []
    from adk_fluent.cost.model_selection import chosen_by

    chosen = chosen_by(step)[1]
    owns = (getattr(part, "model", None) for part in found)
    return [
        (part, own if isinstance(own, str) and own else chosen) for part, own in zip(found, owns, strict=True)
    ]


def _adk_classes(tool: object) -> set[str]:
    """The names of the classes of ADK's, or of `T`, that a tool is an instance of."""
    classes = (one for one in type(tool).__mro__ if one.__module__.startswith(("google.adk.", "adk_fluent.")))
    return {one.__name__ for one in classes}


def _shown(tool: object) -> str:
    name = tool_name(tool) if hasattr(tool, "name") or hasattr(tool, "called") else None
    return name or type(tool).__name__


def _is_of_another(model: str) -> bool:
    provider, _, name = model.casefold().partition("/")
    return "gemini" not in model.casefold() and (
        (provider in _OTHERS and bool(name)) or model.casefold().startswith(("claude-", "gpt-"))
    )


# --- beside functions -----------------------------------------------------------------------------

_APART: Final = (
    "Use a model of Gemini 3, or give {tool} to an agent without other tools and sub-agents, and that agent "
    "to {agent}: .tools(T.agent(...)), in plain ADK AgentTool(...)."
)


_BYPASS: Final = "bypass_multi_tools_limit"
"""ADK's option that gives such a tool to a separate agent, or makes a function of it."""
_DELEGATED: Final = ("task", "single_turn")
"""The modes of sub-agents that ADK calls as tools, instead of handing over."""


def _beside_functions(step: Step, built_in: BuiltIn, given: Mapping[str, bool]) -> Iterator[ContractIssue]:
    """Report the first tool that Gemini itself runs, if its model takes no functions beside such tools."""
    targets = hand_over_targets(step)
    below = [one for one in step.children if one in targets and one.node.given.get("mode") not in _DELEGATED]
    functions = _functions(step, given)
    for part, model in built_in:
        version = _gemini_version(model)
        if not model or _is_of_another(model) or version >= 3 or getattr(part, _BYPASS, False):
            continue
        name, search = _shown(part), bool(_adk_classes(part) & _SEARCHES)
        severity, apart = Severity.WARN, _APART.format(tool=name, agent=step.name)
        if below and search:
            severity = Severity.ERROR
            message = f"{step.name} has {name} and hands over to {at_most_three([one.name for one in below])}"
            why = "newer releases of ADK refuse its first call, and Gemini does with older ones"
        elif version and "live" not in model and functions:
            message = f"{step.name} has {name} beside {at_most_three(functions)}"
            why = "Gemini refuses functions beside such a tool"
        elif version and "live" not in model and targets and step.node.given.get("mode") not in _DELEGATED:
            message = (
                f"{step.name} has {name} and may hand over to {at_most_three([one.name for one in targets])}"
            )
            left_out = (
                "newer releases of ADK leave handing over out, and Gemini refuses its calls with older ones"
            )
            why = left_out if search else "Gemini refuses the tool for handing over beside such a tool"
            apart += "" if below else " If it shall not hand over, add .isolate()."
        else:
            continue
        yield issues.ToolCombination(
            severity=severity, agent=step.name, message=message, hint=f"With {model}, {why}. {apart}"
        )
        return


def _functions(step: Step, given: Mapping[str, bool]) -> list[str]:
    """The functions, beside handing over, that ADK certainly offers to the model of an agent."""
    no_function = _ONLY_GEMINI | _NO_FUNCTION
    tools = (
        tool
        for tool in step.node.given.get("tools", ())
        if not any(_adk_classes(part) & no_function for part in innermost(tool))
    )
    called = [one.name for one in step.children if one.node.given.get("mode") in _DELEGATED]
    own = [name for name, surely in given.items() if surely and name != "transfer_to_agent"]
    return [*(tool_name(tool) or type(tool).__name__ for tool in tools), *called, *own]


def _gemini_version(model: str) -> int:
    """The major version of Gemini in the name of a model; 0 if it has none, as `gemini-flash-latest`.

    >>> _gemini_version("models/gemini-2.5-pro"), _gemini_version("gemini-3-pro"), _gemini_version("gpt-4o")
    (2, 3, 0)
    """
    found = re.match(r"gemini-(\d+)", model.rpartition("/")[2])
    return int(found[1]) if found else 0
