"""Checks of instructions, and of the messages of gates: every placeholder can be filled.

Text in braces that is no placeholder is reported, and the name of a key where its value was meant.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.context.spec import Context
from adk_fluent.contracts import issues
from adk_fluent.contracts.checks.resources import functions_of
from adk_fluent.contracts.findings import finding_about
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir.base import Node, rewrite
from adk_fluent.ir.execution import PerItem
from adk_fluent.ir.formatted_texts import formatted_in
from adk_fluent.ir.functions import source_is_read
from adk_fluent.ir.nodes import AgentNode, agent_of
from adk_fluent.ir.state_keys import SCOPES, StateFieldRef, is_key
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
_KEY_WORD: Final = re.compile(r"(?:\b(?:app|user|temp):)?\w+")
_SPELLED: Final = Spelling(SCOPES)
_NO_SCOPE: Final = ("session", "state")
"""Prefixes that people write before a key of the session, which has none."""


@check(place=70)
def check_template_contracts(root: object) -> list[ContractIssue]:
    """Check that every `{key}` in an instruction or in a gate's message is in state when it is rendered."""
    facts = analyse(root)
    found = [
        _with_braces(issue, read, facts)
        for read in facts.reads
        if read.via in _TEMPLATES
        and (issue := finding_about(read, facts, issues.UnresolvedTemplateVar)) is not None
    ]
    return [*found, *_typos(facts), *_literals(facts)]


def _with_braces(issue: ContractIssue, read: Read, facts: Facts) -> ContractIssue:
    """The finding, with a hint at literal braces if no step writes the key."""
    node = read.step.node
    braces = about_braces(read.key, _texts(node), known=read.key in facts.writers)
    return issue.replace(hint=f"{issue.hint}\n{braces}") if braces else issue


def _typos(facts: Facts) -> Iterator[ContractIssue]:
    """Report optional placeholders that are never filled and resemble a key that a step writes."""
    for read in facts.reads:
        unfilled = read.via in _TEMPLATES and read.level == "optional" and read.status == "never"
        like = facts.spelling.meant(read.key) if unfilled and read.key not in facts.writers else None
        if like is not None:
            shown = f"{{{read.key}?}}"
            yield issues.PlaceholderTypo(
                agent=read.step.name,
                key=read.key,
                message=_has(read.step, shown),
                hint=f"{shown} is never filled. Did you mean {{{like}}}?",
            )


# --- braces without a placeholder -----------------------------------------------------------------


def _literals(facts: Facts) -> Iterator[ContractIssue]:
    """Report text in braces that is no placeholder, so that it is sent with its braces."""
    unnamed = [key for key in {**facts.writers, **facts.state} if not is_key(key)]
    for step in facts.steps:
        if facts.reaches(step) and (texts := tuple(_texts(step.node))):
            found = dict.fromkeys(inner for text in texts for inner in lookalikes(text))
            found |= dict.fromkeys(key for key in unnamed if any(_digit_key(key, text) for text in texts))
            yield from _slips(step, found, facts) if found else ()


def _digit_key(key: str, text: str) -> bool:
    """True if a text has this key in braces and it begins with a digit: `lookalikes` does not find those."""
    return key[:1].isdigit() and re.search(rf"\{{\s*{re.escape(key)}\s*\??\s*\}}", text) is not None


def _slips(step: Step, found: Iterable[str], facts: Facts) -> Iterator[ContractIssue]:
    others: list[str] = []
    for inner in found:
        issue = _slip(step, inner, facts)
        if issue is not None:
            yield issue
        elif _WORDS.fullmatch(inner.removesuffix("?")):
            others.append(inner)
    if others:
        yield _literal_note(step, others)


def _texts(node: Node) -> Iterable[str]:
    """Every template that may be sent to a model, or shown to a person."""
    texts, given = node.templates, node.given
    if not agent_of(node):
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
    """The finding on braces that were probably meant as a placeholder; `None` for JSON and similar text."""
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
    """True if a step could read this key."""
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
    return issues.PlaceholderTypo(
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
        f'Store the part under another key: S.compute({own}=lambda state: state["{key}"]{parts}), and '
        f"write {{{own}}}.",
    )


def _formatted(step: Step, inner: str, key: str) -> ContractIssue:
    own = f"{key.rpartition(':')[2]}_text"
    return _as_it_is(
        step,
        inner,
        key,
        "A placeholder takes no format.\n"
        f"Store the text under another key: S.compute({own}=lambda state: ...), and write {{{own}}}.",
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
    return issues.LiteralPlaceholder(
        agent=step.name,
        key=key,
        message=f"{_has(step, f'{{{inner}}}')}, which is sent as it is",
        hint=why,
    )


def _literal_note(step: Step, others: list[str]) -> ContractIssue:
    """The note on braces that may be intended: the reader of the text gets them."""
    shown, one = at_most_three([f"{{{inner}}}" for inner in others]), len(others) == 1
    reader = "person" if step.node.asks else "model"
    return issues.LiteralPlaceholder(
        severity=Severity.INFO,
        agent=step.name,
        message=f"{_has(step, shown)}, which {'is sent as it is' if one else 'are sent as they are'}",
        hint=f"That is fine if the {reader} is to see the braces. "
        "A placeholder is a key: letters, digits and _.",
    )


def _has(step: Step, shown: str) -> str:
    return f"{step.name} has {shown} in {'its message' if step.node.asks else 'instruction'}"


# --- names of keys instead of their values --------------------------------------------------------


@check(place=75)
def check_formatted_keys(root: object) -> list[ContractIssue]:
    """Report instructions into which an f-string put the name of a key where its value was meant."""
    facts = analyse(root)
    if not source_is_read():
        return []
    declared = {key: None for bound in facts.schemas for key in bound.by_key}
    known = {**dict.fromkeys(facts.writers), **dict.fromkeys(facts.state), **declared}
    for step in facts.steps:
        known.pop(step.name, None)  # a constant with the name of an agent may be meant as that name
    if not known:
        return []
    others = [key for key in known if not _KEY_WORD.fullmatch(key)]
    return [
        issue
        for step in facts.steps
        if agent_of(step.node) and facts.reaches(step)
        for text in step.node.templates
        if (keys := [*_mentioned(text, known), *(key for key in others if key in text)])
        for issue in _formatted_keys(step, text, keys, facts)
    ]


def _mentioned(text: str, known: Mapping[str, None]) -> Iterator[str]:
    """The keys that a text has as words. It looks the words up, since a pipeline may have many keys."""
    found = _KEY_WORD.findall(text)
    words = dict.fromkeys([*found, *(word.rpartition(":")[2] for word in found)])
    return (word for word in words if word in known)


def _formatted_keys(step: Step, text: str, keys: list[str], facts: Facts) -> Iterator[ContractIssue]:
    if not (keys := _unrelated_keys(keys, step, facts)):
        return
    for found in formatted_in(text, tuple(keys)):
        key, is_field = found.constant.text, isinstance(found.constant.value, StateFieldRef)
        if key in keys and _would_be_filled(step, key, is_field, facts):
            keys.remove(key)
            yield _named_key(step, key, found.constant.source, found.where)


def _unrelated_keys(keys: list[str], step: Step, facts: Facts) -> list[str]:
    """The keys that an agent does not use in any other way: it has no reason to mention their names."""
    if any(step in functions for functions in facts.unknown):
        return []
    used = {read.key for read in facts.reads_of(step)} | set(facts.writes_of(step))
    used |= {sub.name for sub in step.children}
    used |= set(getattr(step.node.given.get("output_schema"), "model_fields", ()))
    for function in functions_of(step.node.tools):
        try:
            used |= set(inspect.signature(function).parameters)
        except (TypeError, ValueError):  # functions written in C have no signature
            continue
    return [key for key in keys if key not in used]


def _would_be_filled(step: Step, key: str, is_field: bool, facts: Facts) -> bool:
    """True if a placeholder for the key would certainly be filled, or the constant is a field of a schema."""
    if is_field or key in facts.state:
        return True

    def with_placeholder(node: object) -> AgentNode:
        return step.node.replace(instruction=f"{{{key}}}") if node is step.node else node  # pyright: ignore[reportReturnType]  # other nodes stay unchanged

    changed = Facts(rewrite(facts.plan.root.node, with_placeholder), state=facts.state, config=facts.config)
    return any(
        read.key == key and read.status == "must" for read in changed.reads_of(changed.steps[step.index])
    )


def _named_key(step: Step, key: str, source: str, where: str) -> ContractIssue:
    return issues.FormattedKey(
        agent=step.name,
        key=key,
        message=f'the instruction of {step.name} contains the name "{key}", not its value',
        hint=f'{source}, which is "{key}", is formatted into the text ({where}).\n'
        f"For the value, write {{{{{{{source}}}}}}} in an f-string, so that the text has {{{key}}}.",
    )
