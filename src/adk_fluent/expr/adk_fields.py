"""ADK's names in this library: the method for each field of an agent, and messages that show the method.

Users who know ADK write `Agent(instruction=...)` or `.temperature(0)`. The errors show the same in fluent
form. Read `METHODS` first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir._generated import AGENT_FIELDS, GENERATE_OPTIONS
from adk_fluent.spelling import did_you_mean

METHODS: Final[Mapping[str, str]] = {
    "description": "describe",
    "instruction": "instruct",
    "static_instruction": "static",
    "global_instruction": "global_instruct",
    "output_key": "writes",
    "output_schema": "returns",
    "input_schema": "accepts",
    "sub_agents": "delegate",
    "timeout": "node_timeout",
}
"""The method for each of ADK's fields of an agent, if the two have different names."""
SET_OTHERWISE: Final[Mapping[str, str]] = {
    "tools": "tools(...)",
    "system_instruction": "instruct(...)",
    "response_schema": "returns(...)",
}
"""Options that ADK refuses because it sets them itself, and the methods to call instead."""
_FLAGS: Final[Mapping[str, str]] = {
    "disallow_transfer_to_parent": "stay",
    "disallow_transfer_to_peers": "no_peers",
}
_LISTS: Final = frozenset({"tools", "sub_agents"})


def method_of(field: str) -> str:
    """Return the method that sets one of ADK's fields of an agent.

    >>> method_of("output_key"), method_of("before_model_callback"), method_of("planner")
    ('writes', 'before_model', 'planner')
    """
    return METHODS.get(field, field.removesuffix("_callback"))


def in_fluent_form(name: str, model: object, fields: Mapping[str, object]) -> str:
    """Write the arguments of ADK's `LlmAgent` as methods.

    >>> in_fluent_form("a", "gemini-2.5-flash", {"instruction": "Say hello.", "tools": [len]})
    'Agent("a", "gemini-2.5-flash").instruct("Say hello.").tools(len)'
    """
    arguments = [_written(name), *([] if model is None else [_written(model)])]
    calls = [f"Agent({', '.join(arguments)})"]
    for field, value in fields.items():
        if field in _FLAGS or value in (None, [], ()):
            calls += [f"{_FLAGS[field]}()"] if value else []
            continue
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        several = field in _LISTS or field.endswith("_callback")
        shown = ", ".join(map(_written, items)) if several else _written(cast(object, value))
        calls.append(f"{method_of(field)}({shown})")
    return ".".join(calls)


def refuse_fields(kind: str, member: str, given: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse keyword arguments that a workflow does not accept, such as those of ADK's own classes.

    Raises:
        ArgumentError: `given` is not empty; the message shows what to write instead.
    """
    if not given:
        return
    field = next(iter(given))
    hint = did_you_mean(field, known)
    if field == "sub_agents":
        hint = f" Give each agent as an argument: {kind}({_members(given[field])})."
    elif field in METHODS:
        hint = f" Write {kind}(...).{METHODS[field]}({_written(given[field])})."
    raise ArgumentError(
        f"{kind}() takes each {member} as an argument, and {', '.join(known)}; it has no {field!r}.{hint}"
    )


def _members(value: object) -> str:
    items: list[object] = list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else []
    return ", ".join(map(_written, items)) or "first, second"


def _written(value: object) -> str:
    """Write a value as short source: text in double quotes, a function or class by its name."""
    if isinstance(value, str):
        short = value if len(value) <= 60 else f"{value[:57]}..."
        return json.dumps(short, ensure_ascii=False)
    if isinstance(value, bool | int | float) or value is None:
        return repr(value)
    return str(getattr(value, "__name__", None) or getattr(value, "name", None) or "...")


def generating(name: str) -> str | None:
    """The call that sets a generation option; `None` if `name` is not a generation option.

    >>> generating("temperature"), generating("response_schema"), generating("instruct")
    ('generate(temperature=...)', 'returns(...)', None)
    """
    if name in SET_OTHERWISE:
        return SET_OTHERWISE[name]
    return f"generate({name}=...)" if name in GENERATE_OPTIONS else None


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for a method that no agent has: the generation option, or the nearest of `known`.

    >>> nearest("temperature", ["instruct"])
    ' Write .generate(temperature=...).'
    >>> nearest("temprature", ["instruct"])
    ' Did you mean .generate(temperature=...)?'
    """
    if (call := generating(name)) is not None:
        return f" Write .{call}."
    found = did_you_mean(name, [*known, *GENERATE_OPTIONS])
    meant = found.removeprefix(" Did you mean '").removesuffix("'?")
    return (
        f" Did you mean .{generating(meant)}?" if meant in GENERATE_OPTIONS and meant not in known else found
    )


@lru_cache(maxsize=256)
def instead(cls: type, agent: type, name: str) -> str:
    """The end of the message "has no method": the class that has the method, or the nearest name.

    The result is cached, because programs that test an object (`hasattr(x, "root_agent")`) do so repeatedly.

    Args:
        cls: the class of the expression that lacks the method.
        agent: the class `Agent`.
        name: the method.
    """
    call = f"{name}()" if hasattr(agent, name) else generating(name)
    if call is not None and cls is not agent:
        its = "its agents have prompts" if name in _PROMPTS else "that is for its agents"
        return f": {its}. Call .{call} on an Agent, before it is joined with others."
    known = {n for kind in (cls, agent) for n in dir(kind) if not n.startswith("_")}
    return f".{nearest(name, sorted(known))}"


_PROMPTS = ("instruct", "instruction", "static", "global_instruct", "prompt")


def not_fluent(
    name: str, model: object, more: Sequence[object], fields: Mapping[str, object]
) -> ArgumentError:
    """The error for the keyword arguments of ADK's `LlmAgent`; it shows the same as methods."""
    known = [*AGENT_FIELDS, *METHODS]
    if more:
        return ArgumentError(
            f"Agent({name!r}) takes a name and a model; set the rest with methods, such as "
            f".instruct({more[0]!r:.40})."
        )
    for field in fields:
        if field not in known:
            return ArgumentError(f"Agent({name!r}) has no {field!r}.{nearest(field, known)}")
    written = in_fluent_form(name, model, fields)
    return ArgumentError(f"Agent({name!r}) takes a name and a model; methods set the rest: {written}")


def check_option(name: str, agent: str) -> None:
    """Refuse a generation option that does not exist, or that another method of the agent sets.

    Raises:
        ArgumentError: `name` is such an option; the message says what to write instead.
    """
    if name in SET_OTHERWISE:
        raise ArgumentError(
            f"Agent {agent!r}: generate({name}=) is not for agents; write .{SET_OTHERWISE[name]} instead."
        )
    if name not in GENERATE_OPTIONS:
        hint = did_you_mean(name, GENERATE_OPTIONS) or (
            " One of a newer google-genai goes into .generate_content_config(GenerateContentConfig(...))."
        )
        raise ArgumentError(f"Agent {agent!r}: generate() has no option {name!r}.{hint}")
