"""What a case is run on: the pipeline, or one step cut out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adk_fluent.analysis.facts import Facts
from adk_fluent.errors import EvalError
from adk_fluent.ir.base import UNSET, Node, walk
from adk_fluent.ir.graph import resolve_names
from adk_fluent.ir.nodes import agent_of, agents_in
from adk_fluent.ir.tools import ASKED_BY_ADK, agents_inside, innermost, tool_name
from adk_fluent.spelling import did_you_mean
from adk_fluent.tools.spec import ToolGroup


def cut(root: Node, name: str) -> Node:
    """The step of that name, with what holds for it where it stands in the tree.

    That is the model which it inherits from an agent above, the middleware and resources of what is around
    it, and the schema that is bound there.

    Raises:
        EvalError: there is none; the message names the nearest.
    """
    path = _path(resolve_names(root).root, name)
    if path is None:
        raise EvalError(f"There is no agent or step {name!r} to evaluate.{did_you_mean(name, names(root))}")
    *above, node = path
    notes = node.annotations
    outer = [one.annotations for one in above]
    changes: dict[str, object] = {
        "middleware": tuple(each for one in (*outer, notes) for each in one.middleware),
        "resources": tuple({k: v for one in (*outer, notes) for k, v in one.resources}.items()),
        "schema": next((one.schema for one in (notes, *reversed(outer)) if one.schema is not None), None),
    }
    node = node.replace(annotations=notes.replace(**changes))
    if (agent := agent_of(node)) is not None and agent.selector is None and agent.model in (UNSET, ""):
        agents = map(agent_of, reversed(above))
        models = (one.model for one in agents if one is not None)
        model = next((one for one in models if one not in (UNSET, "")), UNSET)
        node = node.replace(model=model)
    return node


def _path(root: Node, name: str) -> tuple[Node, ...] | None:
    """The nodes from the root down to the one of that name."""
    if root.name == name:
        return (root,)
    for child in root.children:
        if (found := _path(child, name)) is not None:
            return (root, *found)
    return None


def names(root: Node) -> list[str]:
    """The names of all steps, those that users gave first."""
    named = resolve_names(root)
    return list(dict.fromkeys((*named.origins, *(node.name for node in walk(named.root)))))


def missing_keys(root: Node, target: Node, state: Mapping[str, Any]) -> dict[str, str]:
    """The keys that a step which was cut out needs and nobody gives it → who would have written them.

    Args:
        root: the whole tree.
        target: the step.
        state: what the state holds before it runs.
    """
    reads = Facts(target, state=state).reads
    lost = [read.key for read in reads if read.status == "never" and read.level in ("required", "tolerant")]
    if not lost:
        return {}
    writers = Facts(root).writers
    return {key: writers[key][0].name for key in lost if key in writers}


def tools(root: Node) -> tuple[set[str], bool]:
    """The names of the tools that agents have, and whether there may be others that only a run tells."""
    found: set[str] = {"transfer_to_agent", "set_model_response", *ASKED_BY_ADK}
    opened = False
    for tool in _tools(root):
        called = tool_name(tool)
        if called is not None:
            found.add(called)
        elif not isinstance(tool, ToolGroup):  # whose parts follow one by one
            opened = True
    return found, opened


def _tools(root: Node) -> Iterator[object]:
    for agent in agents_in(root):
        yield from (part for tool in agent.tools for part in innermost(tool))
        for inside in agents_inside(agent.tools):
            yield from _tools(inside)
