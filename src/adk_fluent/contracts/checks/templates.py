"""Placeholders in instructions, and in the messages of gates, can be filled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.analysis.values.read import Read
from adk_fluent.context.spec import Context
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.issues import LiteralPlaceholder, PlaceholderTypo, UnresolvedTemplateVar
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import PerItem
from adk_fluent.ir.state_keys import SCOPES, is_key
from adk_fluent.ir.template import about_braces, lookalikes
from adk_fluent.prompt.spec import PromptSpec, Rewrite, When
from adk_fluent.spelling import Spelling

_TEMPLATES: Final = ("template", "message")
_PATH: Final = re.compile(r"\b((?:\w+:)?\w+)((?:\.\w+|\[[^\[\]]+\])+)")
_FORMAT: Final = re.compile(
    r"((?:(?:app|user|temp):)?\w+)(![rsa])?(:[<>=^+ #0,_]*\d*,?(?:\.\d+)?[bcdeEfFgGnosxX%]?)?"
)
_SCOPED: Final = re.compile(r"\b(\w+):(\w+)")
_WORDS: Final = re.compile(r"\w[\w .-]*")
_SPELLED: Final = Spelling(SCOPES)
_NO_SCOPE: Final = ("session", "state")
"""What people write before a key of the session, which has no prefix."""


@check(place=70)
def check_template_contracts(root: object) -> list[ContractIssue]:
    """Every `{key}` in an instruction, or in a gate's message, is in state when it is rendered."""
    facts = analyse(root)
    found = [
        _with_braces(issue, read, facts)
        for read in facts.reads
        if read.via in _TEMPLATES and (issue := about(read, facts, UnresolvedTemplateVar)) is not None
    ]
    return [*found, *_typos(facts), *_literals(facts)]


def _with_braces(issue: ContractIssue, read: Read, facts: Facts) -> ContractIssue:
    """The finding, with how to write braces that stand for themselves if nothing writes the key."""
    node = read.step.node
    said = about_braces(read.key, _texts(node), known=read.key in facts.writers)
    return issue.replace(hint=f"{issue.hint}\n{said}") if said else issue


def _typos(facts: Facts) -> Iterator[ContractIssue]:
    """Optional placeholders that are never filled and look like a key that is."""
    for read in facts.reads:
        unfilled = read.via in _TEMPLATES and read.level == "optional" and read.status == "never"
        like = facts.spelling.meant(read.key) if unfilled and read.key not in facts.writers else None
        if like is not None:
            shown = f"{{{read.key}?}}"
            yield PlaceholderTypo(
                agent=read.step.name,
                key=read.key,
                message=_has(read.step, shown),
                hint=f"{shown} is never filled. Did you mean {{{like}}}?",
            )


# --- what is no placeholder -----------------------------------------------------------------------


def _literals(facts: Facts) -> Iterator[ContractIssue]:
    """Text in braces that is no placeholder, so that the model gets it as it stands."""
    unnamed = [key for key in {**facts.writers, **facts.state} if not is_key(key)]
    for step in facts.steps:
        if facts.reaches(step) and (texts := tuple(_texts(step.node))):
            found = dict.fromkeys(inner for text in texts for inner in lookalikes(text))
            found |= dict.fromkeys(key for key in unnamed if any(_stands_in(key, text) for text in texts))
            yield from _among(step, found, facts) if found else ()


def _stands_in(key: str, text: str) -> bool:
    """Whether a text has a key in braces that begins with a digit, which `lookalikes` leaves out."""
    return key[:1].isdigit() and re.search(rf"\{{\s*{re.escape(key)}\s*\??\s*\}}", text) is not None


def _among(step: Step, found: Iterable[str], facts: Facts) -> Iterator[ContractIssue]:
    others: list[str] = []
    for inner in found:
        issue = _slip(step, inner, facts)
        if issue is not None:
            yield issue
        elif _WORDS.fullmatch(inner.removesuffix("?")):
            others.append(inner)
    if others:
        yield _words(step, others)


def _texts(node: Node) -> Iterable[str]:
    """Every template that an agent may be sent, or a person asked with."""
    texts, given = node.templates, node.given
    if not node.agent:
        return texts
    for field in ("instruction", "global_instruction"):
        if isinstance(prompt := given.get(field), PromptSpec):
            texts = (*texts, *_conditional(prompt))
    if isinstance(spec := node.annotations.context, Context):
        texts = (*texts, *spec.templates)
    return texts


def _conditional(prompt: PromptSpec) -> Iterator[str]:
    for part in prompt.parts:
        if isinstance(part, When):
            yield from part.then.templates
            yield from _conditional(part.then)
        elif isinstance(part, Rewrite):
            yield from _conditional(part.source)


def _slip(step: Step, inner: str, facts: Facts) -> ContractIssue | None:
    """The placeholder that braces which hold none were meant to be; `None` for JSON and the like."""
    name = inner.removesuffix("?")
    if name in facts.writers or name in facts.state:
        return _no_name(step, inner, name)
    meant = re.sub(r"[ .-]", "_", name)
    if meant in facts.writers or meant in facts.state:
        return _typo(step, inner, meant)
    if (path := _PATH.fullmatch(name)) and _is_known(path[1], step, facts):
        return _part(step, inner, path[1], path[2])
    if (form := _FORMAT.fullmatch(name)) and _is_known(form[1], step, facts):
        return _formatted(step, inner, form[1])
    scoped = _SCOPED.fullmatch(name)
    return _misscoped(step, inner, scoped[1], scoped[2], facts) if scoped else None


def _is_known(key: str, step: Step, facts: Facts) -> bool:
    """Whether it is a key that a step could read."""
    if key in facts.writers or key in facts.state or (":" in key and is_key(key)):
        return True
    around = (outer.node.runs for outer in step.above())
    return any(isinstance(runs, PerItem) and runs.item_key == key for runs in around)


def _no_name(step: Step, inner: str, key: str) -> ContractIssue:
    scope, colon, bare = key.rpartition(":")
    own = re.sub(r"\W", "_", bare) if bare else "key"
    meant = (
        f"{scope if scope in SCOPES else ''}{colon if scope in SCOPES else ''}{'_' * own[0].isdigit()}{own}"
    )
    why = "A key in a placeholder has only letters, digits and _, and no digit in front."
    return _as_it_is(step, inner, key, f"ADK does not fill it. {why}\nName the key {meant!r} instead.")


def _typo(step: Step, inner: str, meant: str) -> ContractIssue:
    return PlaceholderTypo(
        agent=step.name,
        key=meant,
        message=_has(step, f"{{{inner}}}"),
        hint=f"{{{inner}}} is no placeholder and stays as it is. Did you mean {{{meant}}}?",
    )


def _part(step: Step, inner: str, key: str, path: str) -> ContractIssue:
    parts = re.sub(r"\.(\w+)", r'["\1"]', path)
    own = "_".join(re.findall(r"\w+", key.rpartition(":")[2] + path))
    return _as_it_is(
        step,
        inner,
        key,
        "A placeholder names a whole key.\n"
        f'Put the part under a key of its own: S.compute({own}=lambda state: state["{key}"]{parts}), and '
        f"write {{{own}}}.",
    )


def _formatted(step: Step, inner: str, key: str) -> ContractIssue:
    own = f"{key.rpartition(':')[2]}_text"
    return _as_it_is(
        step,
        inner,
        key,
        "A placeholder takes no format.\n"
        f"Write the text to a key of its own: S.compute({own}=lambda state: ...), and write {{{own}}}.",
    )


def _misscoped(step: Step, inner: str, scope: str, name: str, facts: Facts) -> ContractIssue | None:
    known = next((other for other in SCOPES if f"{other}:{name}" in facts.writers), None)
    meant = _SPELLED.meant(scope) or known
    if scope in _NO_SCOPE or (meant is None and name in facts.writers):
        return _as_it_is(step, inner, name, f"A key of the session has no prefix. Did you mean {{{name}}}?")
    if meant is None:
        return None
    key = f"{meant}:{name}"
    return _as_it_is(step, inner, key, f"The scopes are app, user and temp. Did you mean {{{key}}}?")


def _as_it_is(step: Step, inner: str, key: str, why: str) -> ContractIssue:
    return LiteralPlaceholder(
        agent=step.name,
        key=key,
        message=f"{_has(step, f'{{{inner}}}')}, which is sent as it is",
        hint=why,
    )


def _words(step: Step, others: list[str]) -> ContractIssue:
    """A note on what may be meant for whoever gets the text."""
    shown, one = at_most_three([f"{{{inner}}}" for inner in others]), len(others) == 1
    reader = "person" if step.node.asks else "model"
    return LiteralPlaceholder(
        severity=Severity.INFO,
        agent=step.name,
        message=f"{_has(step, shown)}, which {'is sent as it is' if one else 'are sent as they are'}",
        hint=f"That is fine if the {reader} is to see the braces. "
        "A placeholder is a key: letters, digits and _.",
    )


def _has(step: Step, shown: str) -> str:
    return f"{step.name} has {shown} in {'its message' if step.node.asks else 'instruction'}"
