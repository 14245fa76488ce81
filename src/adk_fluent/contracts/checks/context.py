"""Context specs and instructions name agents that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three, hand_over_targets
from adk_fluent.analysis.talk.sight import EVERYTHING, sight_of
from adk_fluent.contracts.issues import MisnamedAgent, UnknownAgent
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.tools import tool_name
from adk_fluent.spelling import Spelling

_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")
_NAME: Final = re.compile(r"\b[A-Za-z]\w*_\w+\b|(?<=`)\w+(?=`)")
"""What is a name and no word of the language: with an underscore, or between backticks."""
_HANDED: Final = re.compile(
    r"\b(?:transfer|delegate|route|hand|forward)\w*\s+(?:(?!to\b|back\b)\w+\s+){0,3}to\s+(?:the\s+)?[`'\"]?"
    r"([A-Za-z]\w*_\w+)|\btransfer_to_agent\(\s*(?:agent_name\s*=\s*)?['\"](\w+)",
    re.IGNORECASE,
)


@check(place=60)
def check_context_contracts(root: object) -> list[ContractIssue]:
    """Every agent that a context spec names, or to which an instruction hands over, is one of the tree."""
    facts = analyse(root)
    return [*_chosen(facts), *(issue for step in facts.steps for issue in _misnamed(step, facts))]


def _chosen(facts: Facts) -> list[ContractIssue]:
    choosy = [step for step in facts.steps if sight_of(step.node) is not EVERYTHING]
    if not choosy:
        return []
    names = {"user", *(name for step in facts.steps for name in (step.name, step.origin))}
    return [issue for step in choosy for issue in _unknown(step, names, facts)]


def _unknown(step: Step, names: set[str], facts: Facts) -> Iterator[ContractIssue]:
    sight = sight_of(step.node)
    for name in sorted({*(sight.authors or ()), *sight.excluded} - names):
        agents = [other.name for other in facts.steps if other.is_model and other is not step]
        like = Spelling(agents).like(name)
        yield UnknownAgent(
            agent=step.name,
            message=f'{step.name} has {sight.shown}, and no agent is called "{name}"',
            hint=f'Did you mean "{like}"?' if like else f"The agents here are {', '.join(agents) or 'none'}.",
        )


# --- instructions ---------------------------------------------------------------------------------


def _misnamed(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    """Names in an instruction that look like an agent the model can hand over to, and are none."""
    targets = [other.name for other in hand_over_targets(step)]
    if not targets:
        return
    text = _PLACEHOLDER.sub(" ", "\n".join(step.node.templates))
    handed = {name for found in _HANDED.findall(text) for name in found if name}
    names = dict.fromkeys([*_NAME.findall(text), *handed])
    if not names:
        return
    tools = step.node.tools
    known = {name for one in facts.steps for name in (one.name, one.origin)} | {*facts.writers, *facts.state}
    known |= {read.key for read in facts.reads} | {tool_name(tool) for tool in tools}
    spelling = Spelling(targets)
    for name in names:
        meant = spelling.meant(name)
        if name in known or (meant is not None and not _is_slip(name, meant)):
            continue
        named = name.casefold().endswith("agent") and None not in map(tool_name, tools)
        if meant is not None or (name in handed and (named or not tools)):
            yield MisnamedAgent(
                agent=step.name,
                message=f'The instruction of {step.name} names "{name}", and no agent is called so',
                hint=f'Did you mean "{meant}"?'
                if meant
                else f"{step.name} can hand over to {at_most_three(targets)}.",
            )


def _is_slip(name: str, meant: str) -> bool:
    """Whether the two differ by more than case or the plural of a word."""
    return name.casefold() != meant.casefold() and name + "s" != meant and meant + "s" != name
