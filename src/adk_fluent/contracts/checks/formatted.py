"""An instruction that is made with the constant of a key asks for its value, not for its name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import FormattedKey
from adk_fluent.contracts.providing import functions_of
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.base import rewrite
from adk_fluent.ir.formatted_texts import formatted_in
from adk_fluent.ir.functions import source_is_read
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.state_keys import StateFieldRef


@check(place=75)
def check_formatted_keys(root: object) -> list[ContractIssue]:
    """No instruction has the name of a key, which a constant holds, where the value was meant."""
    facts = analyse(root)
    if not source_is_read():
        return []
    declared = {key: None for bound in facts.schemas for key in bound.by_key}
    known = {**dict.fromkeys(facts.writers), **dict.fromkeys(facts.state), **declared}
    for step in facts.steps:
        known.pop(step.name, None)  # a constant that names an agent may name its key too
    return [issue for step in facts.steps for issue in _of(step, list(known), facts)] if known else []


def _of(step: Step, known: list[str], facts: Facts) -> Iterator[ContractIssue]:
    node = step.node
    if not isinstance(node, AgentNode) or not facts.reaches(step):
        return
    for text in node.templates:
        keys = [key for key in known if key in text and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text)]
        if not keys or not (keys := _unused(keys, step, facts)):
            continue
        for found in formatted_in(text, keys):
            key = found.constant.text
            if key in keys and _is_there(step, key, isinstance(found.constant.value, StateFieldRef), facts):
                keys.remove(key)
                yield _named(step, key, found.constant.source, found.where)


def _unused(keys: list[str], step: Step, facts: Facts) -> list[str]:
    """Those keys that an agent has nothing to do with, so that it has no reason to speak of their names."""
    if any(step in functions for functions in facts.unknown):
        return []
    used = {read.key for read in facts.reads_of(step)} | set(facts.writes_of(step))
    used |= {sub.name for sub in step.children}
    used |= set(getattr(step.node.given.get("output_schema"), "model_fields", ()))
    for function in functions_of(step.node.tools):
        try:
            used |= set(inspect.signature(function).parameters)
        except (TypeError, ValueError):  # written in C
            continue
    return [key for key in keys if key not in used]


def _is_there(step: Step, key: str, is_field: bool, facts: Facts) -> bool:
    """Whether a placeholder would certainly be filled; a field of a schema can mean nothing but its key."""
    if is_field or key in facts.state:
        return True

    def reading(node: object) -> AgentNode:
        return step.node.replace(instruction=f"{{{key}}}") if node is step.node else node  # pyright: ignore[reportReturnType]  # others stay as they are

    asked = Facts(rewrite(facts.plan.root.node, reading), state=facts.state, config=facts.config)
    return any(read.key == key and read.status == "must" for read in asked.reads_of(asked.steps[step.index]))


def _named(step: Step, key: str, source: str, where: str) -> ContractIssue:
    return FormattedKey(
        agent=step.name,
        key=key,
        message=f'{step.name} is told the name "{key}" in its instruction, not the value',
        hint=f'{source}, which is "{key}", is formatted into the text ({where}).\n'
        f"For the value, write {{{{{{{source}}}}}}} in an f-string, so that the text has {{{key}}}.",
    )
