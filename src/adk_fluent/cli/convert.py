"""`adk-fluent convert`: a project in plain ADK as fluent source."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

from adk_fluent.adopt.proving import run_alike
from adk_fluent.adopt.source import bare, written
from adk_fluent.analysis.facts import analyse
from adk_fluent.backends.stand_ins import by_tool, stand_in
from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.starting_state import starting_state
from adk_fluent.cli.target import Target, load, module_name
from adk_fluent.errors import ADKFluentError, ArgumentError, what_happened
from adk_fluent.expr.base import Expr
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.keys import uses_in
from adk_fluent.ir.nodes import NO_LIMIT, AgentNode, agents_in
from adk_fluent.ir.tools import ends_loops
from adk_fluent.state.answers import asked_schema


class ConversionError(ADKFluentError):
    """What was written of a project cannot be imported; exit code 1."""


class ProjectError(ConversionError):
    """A run of the native project itself fails."""


SAME, DIFFERS = 0, 1
"""Exit codes of `--verify`."""


def convert(target: str, output: Path | None, *, verify: bool) -> int:
    """Print, or write, TARGET as source.

    Args:
        output: the file to write; printed by default.
        verify: import what was written and run both sides with a scripted model; 1 if they differ.

    Raises:
        UsageError: TARGET cannot be loaded, or was made with adk-fluent.
        ArgumentError: something in it can be referred to in no way.
        ConversionError: its source cannot be imported; nothing is printed or written then.
    """
    found = load(target)
    if found.expression is not None:
        raise UsageError(f"{target} is an adk-fluent expression already.")
    source = written(found.value)
    _refuse_unimportable(found, source.text)
    pipeline = _imported(source.text)
    if output is None:
        sys.stdout.write(source.text)
    else:
        try:
            output.write_text(source.text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"Cannot write {str(output)!r}: {error.strerror}.") from error
        _say(f"wrote {output}")
    for line in source.native:
        _say(f"left native: {line}")
    for line in source.left_out:
        _say(f"left out: {line}")
    return _proved(found, pipeline) if verify else SAME


def _refuse_unimportable(found: Target, text: str) -> None:
    """Refuse source that refers to a file which no import finds, though this process has loaded it."""
    if (
        found.file is None
        or "." not in found.file.stem
        or f"from {module_name(found.file)} import" not in text
    ):
        return
    raise ConversionError(
        f"The project cannot be converted: Python cannot import {found.file.name!r}, as its name has a dot "
        f"before '.py'. Rename it to '{module_name(found.file)}.py'."
    )


def _imported(text: str) -> Expr[Any]:
    """What a written file makes of `pipeline`, before anything is said or written of it.

    Raises:
        ConversionError: it cannot be imported.
    """
    with tempfile.TemporaryDirectory(prefix="adk_fluent_") as folder:
        file = Path(folder) / "adk_fluent_converted.py"
        file.write_text(text, encoding="utf-8")
        try:
            pipeline = load(f"{file}:pipeline").expression
        except UsageError as error:
            reason = str(error).partition(": ")[2] or str(error)
            raise ConversionError(
                f"The project cannot be converted: its source does not run: {reason}"
            ) from error
    assert pipeline is not None
    return pipeline


def _proved(found: Target, pipeline: Expr[Any]) -> int:
    differences = _differences(found, pipeline)
    for line in differences:
        _say(f"differs: {line}")
    if not differences:
        _say(
            "verified: the same tree, and, with a scripted model, the same events, state, tool calls and "
            "model requests"
        )
    return DIFFERS if differences else SAME


def _differences(target: Target, pipeline: Expr[Any]) -> list[str]:
    from adk_fluent.adopt.adopting import adopt

    native: Any = target.value
    adopted = adopt(native)
    if (one := bare(adopted)) != (other := bare(pipeline)):
        return [f"the tree is another{_other_tool(one, other)}"]
    endless = {loop.name for loop in walk(adopted.node) if getattr(loop, "max_iterations", 0) == NO_LIMIT}
    for found in adopted.check().warnings:
        if found.code == "loop-runs-to-limit" and found.agent in endless:
            raise ConversionError(f"Not verified: {found.message}.")
    given = starting_state(target)
    needed = (read for read in analyse(adopted).reads if read.level == "required")
    states = [{read.key: f"the {read.key}" for read in needed} | given, given]
    left: dict[str, str] = {}  # what is not compared → the first case of it
    with redirect_stdout(StringIO()):  # its callbacks and plugins run, many times
        found = _in_a_state(native, pipeline, adopted.node, states, left)
    for line in left.values():
        _say(f"not compared: {line}")
    if found:
        return found
    from adk_fluent.adopt import tool_stubs

    for name in tool_stubs.uncalled(adopted.node):
        _say(f"not called: {name}: it asks a person, or may reach out of this process")
    return []


def _other_tool(one: Node, other: Node) -> str:
    """The tool in which two trees differ, if it is one: its parts may be others each time it is made."""
    for mine, theirs in zip(walk(one), walk(other), strict=False):
        pairs = zip(mine.given.get("tools", ()), theirs.given.get("tools", ()), strict=False)
        for index, (tool, again) in enumerate(pairs):
            if tool != again:
                return f": tools[{index}] of {mine.name!r}, {tool!r:.60}, cannot be shown to be made alike"
    return ""


def _in_a_state(
    native: Any,
    pipeline: Expr[Any],
    root: Node,
    states: list[dict[str, Any]],
    left: dict[str, str],
) -> list[str]:
    """The first difference, in the first state with which the project itself runs.

    A key that a run misses is added: what a class of the project reads is known only then. What its callbacks
    set up may need that a key is not there, so that the last state has only what the project gives.

    Raises:
        ConversionError: the project fails in each of them.
    """
    while True:
        left.clear()
        try:
            return _first_difference(native, pipeline, root, states[0], left)
        except ProjectError as error:
            key = next(iter(_MISSING.findall(str(error))), None)
            if key and key not in states[0]:
                states[0][key] = f"the {key}"
            elif len(states) > 1:
                del states[0]
            else:
                raise ConversionError(
                    f"Not verified: the project itself fails in a run with a scripted model: {error}"
                ) from error
        except ArgumentError as error:
            raise ConversionError(f"Not verified: {str(error).partition(' Give one:')[0]}") from error


_MISSING: Final = re.compile(r"(?:Context variable not found: `|KeyError: ['\"])(\w+(?::\w+)?)[`'\"]")
"""How ADK, and Python, say that a key is missing."""


def _first_difference(
    native: Any,
    pipeline: Expr[Any],
    root: Node,
    state: Mapping[str, Any],
    left: dict[str, str],
) -> list[str]:
    """Where the runs by the first script that shows a difference differ; `left` gets what is not compared.

    The files that instructions show exist on both sides: nothing else would save those of another program.

    Raises:
        ProjectError: both sides fail where nothing is only made up.
    """
    shown = [one.filename for agent in agents_in(root) for one in uses_in(agent.templates)]
    for what, script in scripts(root):
        lines: list[str] = []
        run = run_alike(
            native,
            pipeline,
            answers=script,
            state=state,
            tools="recorded",
            left_out=lines,
            artifacts=shown,
        )
        try:
            found = asyncio.run(run)
        except Exception as error:  # the user's own functions run
            if not what:
                raise ProjectError(what_happened(error)) from error
            left.setdefault(what, f"{what} fails on both sides: {what_happened(error)}")
            continue
        for line in lines:
            name = line.partition(":")[0]
            left.setdefault(name, f"two runs of the project itself differ: {line}")
        if found:
            return found
    return []


def scripts(root: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    """Answers for runs that come everywhere: every loop left, every agent handed over to, every tool called.

    Each with what may fail in it on both sides, since tools only seem to do something.
    """
    from adk_fluent.adopt import tool_stubs  # with ADK
    from adk_fluent.testing import call_tool

    agents = list(agents_in(root))
    ending: dict[str, list[Any]] = {agent.name: [_answer(agent, root)] for agent in agents}
    ending |= {
        agent.name: tool_stubs.leaving(agent, _answer(agent, root))
        for agent in agents
        if ends_loops(agent.tools)
    }
    ending |= {
        agent.name: [tool_stubs.calls_of(["finish_task"], stand_in(agent, root))]
        for agent in agents
        if agent.given.get("mode") == "task"
    }
    calling = {
        agent.name: [tool_stubs.calls_of(names, ending[agent.name][0]), *ending[agent.name]]
        for agent in agents
        if (names := tool_stubs.callable_tools(agent)[0])
    }
    yield "", ending
    if calling:
        yield "calling the tools", {**ending, **calling}
    above = {_called(child): agent.name for agent in agents for child in agent.children}
    as_tools = {agent.name for agent in agents if agent.given.get("mode") in ("task", "single_turn")}
    for name in above:
        way, at = dict(ending), name
        rest = dict(above)
        while at in rest:  # of two agents of one name, ADK finds the first
            by_tool = at in as_tools
            hands_over = (
                tool_stubs.calls_of([at], "An answer.")
                if by_tool
                else call_tool("transfer_to_agent", agent_name=at)
            )
            at = rest.pop(at)
            way[at] = [hands_over, *ending[at]]
        yield "", way
        if name in calling:
            yield f"calling the tools of {name}", {**way, name: calling[name]}


def _answer(agent: AgentNode, root: Node) -> Any:
    """What an agent answers: with a type and tools, as its model would, by ADK's tool for that or in JSON."""
    words = stand_in(agent, root)
    return by_tool(words) if agent.tools and asked_schema(agent) is not None else words


def _called(child: Node) -> str:
    """The name by which a model hands over to an agent."""
    return child.as_given.name if child.as_given and not child.opaque else child.name


def _say(text: str) -> None:
    print(text, file=sys.stderr)
