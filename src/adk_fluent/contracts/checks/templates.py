"""Placeholders in instructions, and in the messages of gates, can be filled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from adk_fluent.contracts.facts import Facts, facts_of
from adk_fluent.contracts.issues import PlaceholderTypo, UnresolvedTemplateVar
from adk_fluent.contracts.missing import about
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.nodes import AgentNode, GateNode
from adk_fluent.ir.template import is_key

_TEMPLATES: Final = ("template", "message")
_BRACES: Final = re.compile(r"(?<![\\$])\{([\w .-]{1,60}\??)\}")


def check_template_contracts(root: object) -> list[ContractIssue]:
    """Every `{key}` in an instruction, or in a gate's message, is in state when it is rendered."""
    facts = facts_of(root)
    found = [
        issue
        for read in facts.reads
        if read.via in _TEMPLATES and (issue := about(read, facts, UnresolvedTemplateVar)) is not None
    ]
    return found + list(_typos(facts))


def _typos(facts: Facts) -> Iterator[ContractIssue]:
    for read in facts.reads:
        unfilled = read.via in _TEMPLATES and read.level == "optional" and read.status == "never"
        like = facts.spelling.meant(read.key) if unfilled and read.key not in facts.writers else None
        if like is not None:
            yield _typo(read.step, read.key, f"{{{read.key}?}}", "is never filled", like)
    for step in facts.steps:
        if step.visits and isinstance(step.node, AgentNode | GateNode):
            yield from _near_misses(step, facts)


def _near_misses(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    """Text in braces that is no placeholder but would be a known key with other punctuation."""
    for text in step.node.templates:
        for inner, meant in _almost_keys(text):
            if meant in facts.writers or meant in facts.state:
                yield _typo(step, meant, f"{{{inner}}}", "is no placeholder and stays as it is", meant)


@lru_cache(maxsize=4096)
def _almost_keys(text: str) -> tuple[tuple[str, str], ...]:
    """What stands in braces without being a placeholder, and the key that it would be with underscores.

    >>> _almost_keys("Help {first name} with {topic}.")
    (('first name', 'first_name'),)
    """
    names = [(inner, inner.strip().removesuffix("?")) for inner in _BRACES.findall(text)]
    return tuple(
        (inner, re.sub(r"[ .-]", "_", name))
        for inner, name in names
        if not is_key(name) and not name.startswith("artifact.")
    )


def _typo(step: Step, key: str, shown: str, what: str, like: str) -> ContractIssue:
    return PlaceholderTypo(
        severity=Severity.WARN,
        agent=step.name,
        key=key,
        message=f"{step.name} has {shown} in {'its message' if step.node.kind == 'gate' else 'instruction'}",
        hint=f"{shown} {what}. Did you mean {{{like}}}?",
    )
