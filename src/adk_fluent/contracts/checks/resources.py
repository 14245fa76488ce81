"""Checks that each function gets the resources that it needs, and that some function uses each resource."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final, cast, get_type_hints

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.contracts.issues import MissingResource, SharedCache, UnusedResource
from adk_fluent.contracts.refusals import Refusal
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.errors import ResourceError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.nodes import agent_of
from adk_fluent.ir.resources import UserCall, lacking, taken_twice, wanted
from adk_fluent.ir.tools import ToolSpec, agents_inside, innermost
from adk_fluent.spelling import did_you_mean


@check(place=195)
def check_resources(root: object) -> list[ContractIssue]:
    """Check that every function gets the resources it needs, and that some function uses each resource."""
    facts = analyse(root)
    if facts.is_too_deep:
        return []
    names = (step.name for step in facts.steps)
    found = [refusal.finding() for refusal in missing_resources(facts.root, names)]
    return [*found, *_unused_resources(facts)]


def _unused_resources(facts: Facts) -> Iterator[ContractIssue]:
    for step in facts.steps:
        names = [name for name, _ in step.node.annotations.resources]
        used = _used_names(step.node, names) if names else set[str]()
        for name in names:
            if name not in used:
                yield UnusedResource(
                    severity=Severity.INFO,
                    agent=step.name,
                    message=f"{step.name} injects {name!r}, and no function in it takes that",
                    hint=f"A parameter that is called {name} is filled with it.",
                )


def _used_names(root: Node, names: list[str]) -> set[str]:
    """The names of resources for which some function in a tree has a parameter."""
    used = set[str]()
    for node in walk(root):
        for call in node.calls():
            used.update(wanted(call.function, names) if call.injected else ())
        if (agent := agent_of(node)) is not None and "tools" in agent.given:
            for function in (*functions_of(agent.tools), *_confirmation_functions(agent.tools)):
                used.update(wanted(function, names))
            for tree in agents_inside(agent.tools):
                used |= _used_names(tree, names)
    return used


def _confirmation_functions(tools: Iterable[object]) -> Iterator[object]:
    """The functions and values that decide whether a person must confirm a call of a tool."""
    for tool in tools:
        for part in innermost(tool):
            yield getattr(part, "require_confirmation", getattr(part, "_require_confirmation", None))
            yield getattr(part, "when", None)


# --- parameters without a value -------------------------------------------------------------------


_NONE: Final[Mapping[str, object]] = {}

_SIMPLE_TYPES: Final = frozenset({str, int, float, bool, list, dict, "str", "int", "float", "bool"})
"""Types of parameters, as objects and as text, that ADK can always describe to a model."""


def missing_resources(
    root: Node, names: Iterable[str], given: Mapping[str, object] = _NONE
) -> Iterator[Refusal]:
    """Yield a refusal for each parameter without a value, and for each cache that would mix up users.

    Args:
        names: the unique names of the nodes, parents first.
        given: the resources injected around this tree.
    """
    named = iter(names)
    pending = [(root, given)]
    while pending:
        node, given = pending.pop()
        if own := node.annotations.resources:
            given = {**given, **dict(own)}
        name = next(named)
        if (calls := node.calls()) or "tools" in node.given:  # skips most nodes
            yield from _of_node(node, calls, name, given)
        if children := node.children:
            pending.extend((child, given) for child in reversed(children))


def _of_node(
    node: Node, calls: Iterable[UserCall], name: str, given: Mapping[str, object]
) -> Iterator[Refusal]:
    for call in calls:
        if call.function is not None and (parameter := lacking(call, given)) is not None:
            hint = _hint(parameter, name, given) if call.injected else _RECEIVERS
            yield _missing_value(name, call.what, call.function, parameter, "which nothing gives it", hint)
        if not agent_of(node) and (parameter := taken_twice(call, given)) is not None:
            yield _missing_value(name, call.what, call.function, parameter, *_TWICE)
    if (agent := agent_of(node)) is not None and "tools" in agent.given:
        for function, hidden in declared_functions(agent.tools):
            if (parameter := _undescribable(function, given, hidden)) is not None:
                why, hint = "which no model can give and .inject does not", _hint(parameter, name, given)
                yield _missing_value(name, "its tool", function, parameter, why, hint)
        yield from _shared_caches(agent.tools, name, given)
        for tree in agents_inside(agent.tools):
            yield from missing_resources(tree, (inner.name or inner.label for inner in walk(tree)), given)


def _shared_caches(tools: Iterable[object], name: str, given: Mapping[str, object]) -> Iterator[Refusal]:
    """Refuse caches that could give one user a result from a resource of another user's session."""
    caches = [part for tool in tools for part in innermost(tool) if _by_arguments(part)] if given else []
    for function in functions_of(caches):
        for resource in wanted(function, given):
            if getattr(given[resource], "scope", "app") != "app":
                called = function_name(function, type(function).__name__)
                message = f"{name}: T.cache() of its tool {called!r} gives all users the same result"
                hint = f"{resource!r} is a resource of one session or run: tell the users apart with key=."
                yield Refusal(SharedCache, ResourceError, name, message, hint)


def _by_arguments(part: object) -> bool:
    return isinstance(part, ToolSpec) and part.by_arguments


def _missing_value(name: str, what: str, function: object, parameter: str, why: str, hint: str) -> Refusal:
    called = function_name(function, "<lambda>" if inspect.isroutine(function) else type(function).__name__)
    message = f"{name}: {what} {called!r} takes {parameter!r}, {why}"
    return Refusal(MissingResource, ResourceError, name, message, hint)


_RECEIVERS: Final = (
    "Resources are given to tools, callbacks, taps, functions that are steps, and tests that choose steps."
)


_TWICE: Final = (
    "which is the state by its place, and a resource by its name",
    "The state comes first, resources behind it: write (state, resource), or rename the parameter.",
)


def _hint(parameter: str, name: str, given: Iterable[str]) -> str:
    return f"Add .inject({parameter}=...) to {name}, or around it.{did_you_mean(parameter, given)}"


def functions_of(tools: Iterable[object]) -> Iterator[Callable[..., Any]]:
    """The functions among some tools, those in ADK's `FunctionTool` included."""
    return (function for _, function in _functions_in(tools))


def _functions_in(tools: Iterable[object]) -> Iterator[tuple[object, Callable[..., Any]]]:
    for tool in tools:
        for part in innermost(tool):
            function = getattr(part, "func", part)
            is_tool = isinstance(part, ToolSpec | partial | type) or hasattr(function, "run_async")
            if callable(function) and not is_tool:
                yield part, function


def declared_functions(tools: Iterable[object]) -> Iterator[tuple[Callable[..., Any], frozenset[str]]]:
    """The functions that ADK itself declares to the model, each with the parameters that its tool hides.

    A subclass with its own declaration is left out: it fills in the parameters that it does not declare.
    """
    for part, function in _functions_in(tools):
        declares = getattr(part, "_get_declaration", None)
        if declares is None or declares.__module__ in _ADKS_DECLARATION:
            yield function, frozenset(getattr(part, "_ignore_params", ()))


_ADKS_DECLARATION: Final = ("google.adk.tools.function_tool", "google.adk.tools.long_running_tool")


def _undescribable(
    function: Callable[..., Any], given: Mapping[str, object], hidden_by_tool: frozenset[str]
) -> str | None:
    """The first parameter of a tool that is no resource, and whose type ADK cannot describe to a model."""
    function = function if inspect.isroutine(function) else type(function).__call__
    written: Mapping[str, object] = getattr(function, "__annotations__", {})
    try:
        if _SIMPLE_TYPES.issuperset(hint for name, hint in written.items() if name != "return"):
            return None  # most tools: no need to resolve their types
        hints = get_type_hints(function)
    except (NameError, TypeError):  # ADK may still resolve these types, or raise its own error
        return None
    hidden = {"return", *hidden_by_tool, *wanted(function, given)}
    return next((name for name, hint in hints.items() if name not in hidden and not _describable(hint)), None)


def _describable(hint: object) -> bool:
    try:
        return _has_schema(hint)
    except TypeError:  # it has no hash
        return True


@lru_cache(1024)
def _has_schema(hint: object) -> bool:
    """True if pydantic can describe a type, or if it is ADK's: ADK fills in those parameters itself."""
    from pydantic import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, TypeAdapter

    if "google.adk." in repr(hint):
        return True
    try:
        TypeAdapter(cast(Any, hint)).json_schema()
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        return False
    except Exception:  # noqa: BLE001  # the type has another fault, which ADK reports
        return True
    return True
