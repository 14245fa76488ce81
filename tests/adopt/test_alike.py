"""Any tree that ADK's own classes can say: built with them, adopted again, it is the same and runs alike."""

# The functions that strategies call cannot know the types they are called with.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.tools import exit_loop
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, FanOut, Loop, Pipeline
from adk_fluent.adopt import adopt, to_source
from adk_fluent.adopt.proving import run_alike
from adk_fluent.adopt.source import bare
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, LoopNode, Node, ParallelNode, SequenceNode
from adk_fluent.ir.tools import GenerateOptions, tool_name
from adk_fluent.testing import call_tool
from tests.adopt.projects import look_up, note_start, save_order, shell
from tests.samples import Invoice
from tests.sampling import examples

AnyExpr = Expr[Any]
KEYS = st.sampled_from(["draft", "topic", "user:name"])
CHANGES: list[Any] = [
    lambda agent: agent.instruct("Answer."),
    lambda agent: agent.instruct("For {user:name?}: {draft?}."),
    lambda agent: agent.describe("Works."),
    lambda agent: agent.writes("draft"),
    lambda agent: agent.writes("topic"),
    lambda agent: agent.tools(save_order),
    lambda agent: agent.tool(look_up, require_confirmation=True),
    lambda agent: agent.tools(exit_loop),
    lambda agent: agent.generate(temperature=0.5),
    lambda agent: agent.before_agent(note_start),
    lambda agent: agent.include_contents("none"),
    lambda agent: agent.isolate(),
    lambda agent: agent.returns(Invoice).writes("invoice"),
    lambda agent: agent.global_instruct("Be kind."),
]


@st.composite
def trees(draw: Any, names: Any = None, depth: int = 3) -> AnyExpr:
    """An expression whose every step has its own name and a class of ADK's."""
    names = names if names is not None else iter(range(1000))
    kinds = ["agent", "agent", "boss", "sequence", "parallel", "loop"]
    kind = draw(st.sampled_from(kinds if depth else ["agent"]))
    inner = trees(names=names, depth=depth - 1)
    name = f"{kind}_{next(names)}"
    if kind in ("agent", "boss"):
        agent: Any = Agent(name)
        for change in draw(st.lists(st.sampled_from(CHANGES), max_size=3, unique_by=id)):
            agent = change(agent)
        return agent.delegate(*draw(st.lists(inner, min_size=1, max_size=2))) if kind == "boss" else agent
    members = draw(st.lists(inner, min_size=1, max_size=3))
    if kind == "sequence":
        return Pipeline(*members, name=name)
    if kind == "parallel":
        return FanOut(*members, name=name)
    return Loop(*members, name=name, max_iterations=draw(st.integers(1, 2)))


def plain(node: Node) -> BaseAgent:
    """The same with ADK's own classes."""
    below = [plain(child) for child in node.children]
    given: dict[str, Any] = dict(node.given)
    given |= {name: list(value) for name, value in given.items() if isinstance(value, tuple)}
    fields: dict[str, Any] = {
        name: value for name, value in given.items() if name not in ("children", "annotations", "name")
    }
    if isinstance(node, SequenceNode):
        return shell("SequentialAgent", node.name, *below)
    if isinstance(node, ParallelNode):
        return shell("ParallelAgent", node.name, *below)
    if isinstance(node, LoopNode):
        return shell("LoopAgent", node.name, *below, max_iterations=node.max_iterations)
    assert isinstance(node, AgentNode)
    if isinstance(options := fields.get("generate_content_config"), GenerateOptions):
        from google.genai import types

        fields["generate_content_config"] = types.GenerateContentConfig(**dict(options.options))
    fields["tools"] = [_tool(tool) for tool in node.tools]
    return LlmAgent(name=node.name, sub_agents=below, **fields)


def _tool(tool: Any) -> Any:
    from google.adk.tools import FunctionTool

    asking = getattr(tool, "require_confirmation", False)
    return FunctionTool(tool.function, require_confirmation=True) if asking else tool


@settings(max_examples=examples(60), deadline=None)
@given(trees())
def test_what_is_built_with_adks_classes_is_adopted_as_it_was(expression: AnyExpr) -> None:
    """The tree of the native agents is the tree of the expression."""
    assert bare(adopt(plain(expression.node))) == expression.node


@settings(max_examples=examples(30), deadline=None)
@given(trees())
def test_its_source_says_the_same(expression: AnyExpr) -> None:
    """What is written for it, imported, is it."""
    names: dict[str, Any] = {}
    exec(to_source(expression), names)  # it is ours
    assert names["pipeline"].node == expression.node


def _script(node: Node, way: int) -> dict[str, Any]:
    """Answers: JSON where it is asked for, else text; some hand over, leave the loop, or call a tool."""
    from adk_fluent.ir import walk

    script: dict[str, Any] = {}
    for agent in walk(node):
        if isinstance(agent, AgentNode):
            says: Any = '{"number": 1}' if agent.given.get("output_schema") else f"said by {agent.name}"
            called = [tool_name(tool) for tool in agent.tools]
            if way == 1 and "look_up" in called:
                says = [call_tool("look_up", order="tea"), says]
            elif way == 1 and "save_order" in called:
                says = [call_tool("save_order", order="tea"), says]
            elif way == 1 and agent.children:
                says = [call_tool("transfer_to_agent", agent_name=agent.children[0].name), says]
            script[agent.name] = says
    return script


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ADK's own, of global_instruction
@settings(max_examples=examples(20), deadline=None)
@given(trees(depth=2), st.integers(0, 1))
def test_both_run_alike(expression: AnyExpr, way: int) -> None:
    """The same events, state and model requests."""
    import asyncio

    native = plain(expression.node)
    found = asyncio.run(run_alike(native, adopt(native), answers=_script(expression.node, way)))
    assert found == []
