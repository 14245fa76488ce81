"""Check that the agents which context specs and instructions name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from adk_fluent.analysis.audience import EVERYTHING, sight_of
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three, hand_over_targets
from adk_fluent.contracts.issues import MisnamedAgent, UnknownAgent
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.tools import tool_name
from adk_fluent.spelling import Spelling

_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")
_NAME: Final = re.compile(r"\b[A-Za-z]\w*_\w+\b|(?<=`)\w+(?=`)")
"""Words that are names rather than English: those with an underscore, or between backticks."""
_HANDED: Final = re.compile(
    r"\b(?:transfer|delegate|route|hand|forward)\w*\s+(?:(?!to\b|back\b)\w+\s+){0,3}to\s+(?:the\s+)?[`'\"]?"
    r"([A-Za-z]\w*_\w+)|\btransfer_to_agent\(\s*(?:agent_name\s*=\s*)?['\"](\w+)",
    re.IGNORECASE,
)


@check(place=60)
def check_context_contracts(root: object) -> list[ContractIssue]:
    """Check that the tree has every agent that a context spec names or an instruction hands over to."""
    facts = analyse(root)
    return [*_unknown_authors(facts), *(issue for step in facts.steps for issue in _misnamed(step, facts))]


def _unknown_authors(facts: Facts) -> list[ContractIssue]:
    choosy = [step for step in facts.steps if sight_of(step.node) is not EVERYTHING]
    if not choosy:
        return []
    names = {"user", *(name for step in facts.steps for name in (step.name, step.origin))}
    return [issue for step in choosy for issue in _unknown_names(step, names, facts)]


def _unknown_names(step: Step, names: set[str], facts: Facts) -> Iterator[ContractIssue]:
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
    """Report names in an instruction that look like a delegate but belong to no agent."""
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
    """True if the two names differ by more than upper case or a plural "s"."""
    return name.casefold() != meant.casefold() and name + "s" != meant and meant + "s" != name
