"""Agents made with ADK alone become expressions that say, check and do the same."""

from __future__ import annotations

from typing import Any, cast

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps.app import App
from google.adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
from google.adk.planners import PlanReActPlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import FunctionTool, exit_loop
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route
from adk_fluent.adopt import adopt, config_of
from adk_fluent.adopt.proving import run_alike
from adk_fluent.errors import ADKFluentError, ArgumentError, CompileError
from adk_fluent.ir import (
    AgentNode,
    KnownNativeNode,
    LoopNode,
    NativeNode,
    ParallelNode,
    SequenceNode,
    ir_hash,
    resolve_names,
)
from adk_fluent.ir.nodes import NO_LIMIT
from adk_fluent.middleware import Middleware
from adk_fluent.state import declares
from adk_fluent.testing import call_tool, mock_backend
from adk_fluent.visibility import VisibilityPlugin
from tests.adopt.projects import (
    Connected,
    Custom,
    Declared,
    Forgetful,
    Polite,
    Unclonable,
    look_up,
    note_start,
    provide,
    save_order,
    shell,
)


class Answer(BaseModel):
    text: str


def node_of(native: Any) -> Any:
    """The node of what was adopted."""
    return adopt(native).node


# --- what is read ---------------------------------------------------------------------------------


def test_every_field_of_an_agent_is_read() -> None:
    """What was set is what `Agent` would have been given, and nothing else."""
    native = LlmAgent(
        name="clerk",
        model="m",
        description="Sorts.",
        instruction="Sort {topic}.",
        global_instruction="Be kind.",
        output_key="intent",
        output_schema=Answer,
        include_contents="none",
        disallow_transfer_to_parent=True,
        disallow_transfer_to_peers=True,
        generate_content_config=types.GenerateContentConfig(temperature=0.5),
        before_agent_callback=note_start,
        after_agent_callback=[note_start, note_start],
        tools=[look_up, FunctionTool(save_order, require_confirmation=True)],
    )
    fluent = (
        Agent("clerk", "m")
        .describe("Sorts.")
        .instruct("Sort {topic}.")
        .global_instruct("Be kind.")
        .writes("intent")
        .returns(Answer)
        .include_contents("none")
        .isolate()
        .generate(temperature=0.5)
        .before_agent(note_start)
        .after_agent(note_start, note_start)
        .tool(look_up)
        .tool(save_order, require_confirmation=True)
    )
    read = node_of(native)
    assert read.replace(annotations=fluent.node.annotations) == fluent.node
    assert read.annotations.adopted is not None


SET: dict[str, Any] = {
    "rerun_on_resume": True,
    "wait_for_output": True,
    "timeout": 5.0,
    "input_schema": Answer,
    "output_schema": Answer,
    "state_schema": Answer,
    "parallel_worker": True,
    "mode": "single_turn",
    "generate_content_config": types.GenerateContentConfig(temperature=0.5),
    "static_instruction": "Always.",
    "include_contents": "none",
    "planner": PlanReActPlanner(),
    "code_executor": UnsafeLocalCodeExecutor(),
    "tools": [look_up],
}
"""Values of fields that are neither texts, flags nor callbacks."""


def _value(name: str) -> Any:
    if name == "retry_config":
        from google.adk.workflow import RetryConfig

        return RetryConfig(max_attempts=3)
    default: Any = LlmAgent.model_fields[name].get_default(call_default_factory=True)
    if name.endswith("_callback"):
        return [note_start]
    return SET.get(name, not default if isinstance(default, bool) else f"a_{name}")


FIELDS = [name for name in LlmAgent.model_fields if name not in ("parent_agent", "sub_agents", "name")]


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_adks_agents_is_carried(name: str) -> None:
    """What an agent was given, the agent that is built of its expression has, too."""
    value = _value(name)
    given: dict[str, Any] = {"name": "clerk", "model": "gemini-2.5-flash", name: value}
    native = LlmAgent(**given)
    read = node_of(native)
    assert name in {**read.given, **{field: None for field in ("description",) if read.description}}
    if name not in ("tools", "output_schema", "static_instruction") and not name.endswith("_callback"):
        assert getattr(adopt(native).build(), name) == value


def test_objects_are_kept_as_they_are() -> None:
    """Planners, executors, toolsets and whole configurations are the very objects that were given."""
    from google.adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
    from google.adk.planners.plan_re_act_planner import PlanReActPlanner

    planner, executor = PlanReActPlanner(), BuiltInCodeExecutor()
    inner = AgentTool(LlmAgent(name="inner"))
    node = node_of(LlmAgent(name="a", planner=planner, code_executor=executor, tools=[inner, exit_loop]))
    assert (node.planner, node.code_executor, *node.tools) == (planner, executor, inner, exit_loop)


@pytest.mark.parametrize(
    ("kind", "node", "expr"),
    [
        ("SequentialAgent", SequenceNode, Pipeline),
        ("ParallelAgent", ParallelNode, FanOut),
        ("LoopAgent", LoopNode, Loop),
    ],
)
def test_composites(kind: str, node: type, expr: type) -> None:
    """ADK's composites are ours, with their callbacks."""
    found = adopt(
        shell(kind, "all", LlmAgent(name="a"), LlmAgent(name="b"), before_agent_callback=note_start)
    )
    assert type(found.node) is node
    assert type(found) is expr
    assert [child.name for child in found.node.children] == ["a", "b"]
    assert found.node.given["before_agent_callback"] == (note_start,)


def test_a_loop_without_limit() -> None:
    """A loop that only an agent ends is drawn so."""
    assert node_of(shell("LoopAgent", "again", LlmAgent(name="a"))).max_iterations == NO_LIMIT
    assert node_of(shell("LoopAgent", "again", LlmAgent(name="a"), max_iterations=3)).max_iterations == 3
    assert 'repeat"' in adopt(shell("LoopAgent", "again", LlmAgent(name="a"))).visualize()


def test_sub_agents_with_their_flags() -> None:
    """Who may hand over to whom is known."""
    left = LlmAgent(name="left", disallow_transfer_to_peers=True)
    node = node_of(LlmAgent(name="boss", sub_agents=[left, Custom(name="own")]))
    assert [type(child) for child in node.children] == [AgentNode, NativeNode]
    assert node.children[0].disallow_transfer_to_peers is True


@pytest.mark.newest
@pytest.mark.parametrize("mode", ["task", "single_turn"])
async def test_an_agent_that_is_called_as_a_tool_is_declared_once(mode: str) -> None:
    """ADK makes tools of such sub-agents; a project that is adopted, or written, has no second one."""
    child = LlmAgent(name="child", description="Does it.", mode=cast(Any, mode), tools=[look_up])
    root = LlmAgent(name="root", sub_agents=[child])
    expression = adopt(root)
    assert "tools" not in node_of(root).given
    assert expression.node.children[0].given["tools"] == (look_up,)
    ends: list[Any] = [call_tool("finish_task", result="done")] if mode == "task" else ["done"]
    script: dict[str, Any] = {"root": [call_tool("child", request="Do it."), "ok"], "child": ends}
    assert await run_alike(root, expression, answers=script) == []


def test_what_adk_fluent_built_is_what_it_was_built_of() -> None:
    """Nothing is lost on the way to ADK and back."""
    pipeline = Agent("a").writes("x") >> Route("x").eq("1", Agent("b"))
    assert adopt(pipeline.build()).check() == pipeline.check()


def test_a_subclass_runs_as_it_is_and_is_looked_into() -> None:
    """The analysis sees its instruction; what runs is a clone of its class."""
    native = Polite(name="polite", instruction="{nobody}", tone="warm")
    assert isinstance(node_of(native), KnownNativeNode)
    assert [issue.agent for issue in adopt(native).check().errors] == ["polite"]
    built: Any = (Agent("a") >> native).build().sub_agents[1]
    assert (type(built), built.tone, built is native) == (Polite, "warm", False)


# --- what cannot be known -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [("name", "find"), ("description", "Find a flight."), ("custom_metadata", {"team": "air"})],
)
async def test_a_changed_function_tool_stays_as_it_is(setting: str, value: object) -> None:
    """A `FunctionTool` that got another name or description keeps it, and is called by it."""
    tool = FunctionTool(look_up)
    setattr(tool, setting, value)
    adopted = adopt(LlmAgent(name="a", model="gemini-2.5-flash", tools=[tool]))
    assert cast(Any, adopted.node).tools == (tool,)
    script = mock_backend({"a": [call_tool(tool.name, order="7"), "done"]})
    result = await adopted.run("Go", backend=script)
    assert [each.result for event in result for each in event.tool_responses] == [
        {"result": "7 is on its way"}
    ]


def test_an_opaque_agent_is_unknown_once_by_name() -> None:
    """One note says which agent nobody can look into, and nothing else is claimed of it."""
    report = (Agent("a") >> Custom(name="own") >> Agent("b").instruct("{other}")).check()
    assert not report.errors
    assert not report.warnings
    (note,) = [issue for issue in report.infos if issue.code == "unknown-access"]
    assert "own" in note.message
    assert "'other'" in note.hint


@pytest.mark.parametrize(
    "native",
    [adopt(Custom(name="own"), declare={"own": declares(writes=["summary"])}), adopt(Declared(name="own"))],
)
def test_what_is_declared_counts(native: Any) -> None:
    """`declare=` and `@declares` on the class say what an opaque agent writes."""
    pipeline = native >> Agent("b").instruct("{summary}") >> Agent("c").instruct("{other}")
    assert [(issue.agent, issue.key) for issue in pipeline.check(state={"topic": "x"}).errors] == [
        ("c", "other")
    ]


def test_agents_inside_tools_are_looked_into() -> None:
    """What an agent in a tool writes may be there; what it reads is missed."""
    inner = LlmAgent(name="inner", instruction="{nobody}", output_key="found")
    native = shell(
        "SequentialAgent",
        "all",
        LlmAgent(name="caller", tools=[AgentTool(inner)]),
        LlmAgent(name="reader", instruction="{found}"),
    )
    report = adopt(native).check()
    assert [(issue.agent, issue.key) for issue in report.errors] == [("caller", "nobody")]
    assert [(issue.agent, issue.key) for issue in report.warnings] == [("reader", "found")]


def test_what_source_shows_may_happen() -> None:
    """What a tool, a callback or a provider touches is read in its source, and told with file and line."""
    native = shell(
        "SequentialAgent",
        "all",
        LlmAgent(name="clerk", tools=[save_order], before_agent_callback=note_start, instruction=provide),
        LlmAgent(name="reader", instruction="{order} {started} {nobody}"),
    )
    report = adopt(native).check()
    assert [(issue.agent, issue.key) for issue in report.errors] == [("reader", "nobody")]
    warned = {issue.key: issue for issue in report.warnings}
    assert set(warned) == {"tier", "order"}  # the callback writes "started" each time
    assert "(projects.py, line " in warned["tier"].message
    assert "a tool of clerk (projects.py, line " in warned["order"].hint


# --- steps among steps ----------------------------------------------------------------------------


async def test_native_agents_are_steps_wherever_an_expression_is() -> None:
    """`>>`, `|`, `//`, `Route`, `Loop`, `.delegate` and `.tool` take them, on both sides."""

    def made(name: str) -> Any:
        return LlmAgent(name=name)

    whole = (
        made("first")
        >> Agent("second").writes("way")
        >> Route("way").eq("on", made("third"))
        >> (made("left") | Agent("right") | made("far"))
        >> (made("try_") // Agent("else_") // made("last"))
        >> Loop(made("again"), max_iterations=2)
        >> Agent("boss").delegate(made("helper")).tool(made("asked"))
        >> Custom(name="own")
    )
    backend = mock_backend({"second": "on", "boss": [call_tool("asked", request="?"), "x"]}, default="said")
    result = await whole.run("go", backend=backend)
    order = [event.author for event in result if event.content]
    assert order[:3] == ["first", "second", "third"]
    assert sorted(order[3:6]) == ["far", "left", "right"]
    assert order[6:9] == ["try_", "again", "again"]
    assert {"asked", "boss"} <= set(order[9:])
    assert result.text == "custom about nothing"


async def test_the_object_itself_is_never_changed() -> None:
    """What runs is a clone, so one agent may stand in several expressions, and run by itself."""
    native = Custom(name="own", before_agent_callback=note_start)
    before = native.model_dump(exclude={"parent_agent"})
    twice = native >> Agent("a") >> adopt(native)
    for _ in range(2):
        result = await twice.run("go", backend=mock_backend(default="x"))
        assert [event.author for event in result if event.content] == ["own", "a", "own_2"]
        assert result.state["started"] is True
    assert native.parent_agent is None
    assert native.model_dump(exclude={"parent_agent"}) == before


async def test_the_plugins_of_an_app_are_middleware() -> None:
    """They act on the expression as on the app, and its settings are kept."""
    seen: list[str] = []

    class Watching(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            seen.append(callback_context.agent_name)

    app = App(name="shop", root_agent=LlmAgent(name="a"), plugins=[Watching(name="watching")])
    await adopt(app).run("go", backend=mock_backend(default="x"), config=config_of(app))
    assert seen == ["a"]
    assert config_of(app).app_name == "shop"


async def test_an_app_that_adk_fluent_built_is_its_expression() -> None:
    """The plugins that compiling added are not taken for middleware: compiling adds them again."""
    seen: list[str] = []

    class Watching(Middleware):
        async def before_model(self, ctx: Any, request: Any) -> None:
            seen.append(ctx.agent_name)

    pipeline = (Agent("a").hide() >> Agent("b").execution_boundary()).middleware(Watching())
    expression = adopt(pipeline.to_app())
    assert ir_hash(expression) == ir_hash(resolve_names(pipeline.node).root)
    result = await expression.run("go", backend=mock_backend(default="x"))
    assert (seen, len(result)) == (["a", "b"], 2)


async def test_a_visibility_plugin_may_be_middleware() -> None:
    """As that of an app written by hand becomes when it is adopted."""
    native = LlmAgent(name="a")
    app = App(name="shop", root_agent=native, plugins=[VisibilityPlugin({"a": "internal"})])
    assert len(await adopt(app).run("go", backend=mock_backend(default="x"))) == 1


# --- bad input ------------------------------------------------------------------------------------


def circle() -> BaseAgent:
    """Two agents, each the sub-agent of the other."""
    one, other = LlmAgent(name="one"), LlmAgent(name="other")
    one.sub_agents.append(other)
    other.sub_agents.append(one)
    return one


def twice() -> BaseAgent:
    """One agent at two places."""
    same = LlmAgent(name="same")
    whole = LlmAgent(name="whole", sub_agents=[same])
    whole.sub_agents.append(same)
    return whole


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: adopt("text"), ArgumentError, "adopt() takes an agent, a workflow or an App"),  # pyright: ignore[reportArgumentType]  # wrong on purpose
        (lambda: adopt(circle()), ArgumentError, "Agents stand in a circle: one > other > one"),
        (lambda: adopt(twice()), ArgumentError, "Agent 'same' stands at two places"),
        (
            lambda: adopt(Custom(name="own"), declare={"owm": declares(reads=["x"])}),
            ArgumentError,
            "declare= names 'owm', which is no agent that cannot be looked into. Did you mean",
        ),
        (
            lambda: adopt(Custom(name="own"), declare={"own": ["x"]}),  # pyright: ignore[reportArgumentType]  # wrong on purpose
            ArgumentError,
            "takes declares(reads=[...], writes=[...])",
        ),
        (
            lambda: (Agent("a") >> Forgetful(name="one")).build(),
            CompileError,
            "'one' is a Forgetful with private state that its clone() does not keep: _connection.",
        ),
        (
            lambda: (Agent("a") >> Unclonable(name="one")).build(),
            CompileError,
            "'one' is a Unclonable, which cannot be cloned (TypeError: a connection cannot be copied)",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make: Any, error: type[ADKFluentError], message: str) -> None:
    """Each says what is wrong, of which agent, and what to do."""
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- running alike --------------------------------------------------------------------------------


async def test_a_run_that_differs_is_told() -> None:
    """The comparison sees another instruction, another event and another state."""
    native = LlmAgent(name="a", instruction="One.", output_key="x")
    assert await run_alike(native, adopt(native)) == []
    told = " ".join(await run_alike(native, Agent("a").instruct("Two.").writes("y")))
    for part in ("event 1", "is asked", "the state afterwards"):
        assert part in told


async def test_a_native_tree_that_stands_twice_has_names_of_its_own() -> None:
    """Every agent of the second clone is renamed with the tree, however it is made."""

    def team() -> Any:
        return Polite(
            name="head", sub_agents=[Polite(name="hand"), Custom(name="own"), LlmAgent(name="foot")]
        )

    adopted = adopt(team())
    built: Any = (adopted >> Agent("between") >> adopted).build()
    first, _, second = built.sub_agents
    assert [agent.name for agent in (first, *first.sub_agents)] == ["head", "hand", "own", "foot"]
    assert [agent.name for agent in (second, *second.sub_agents)] == ["head_2", "hand_2", "own_2", "foot_2"]


def test_private_state_is_shared_with_the_clone() -> None:
    """A connection that an agent keeps to itself is there in what runs."""
    native = Connected(name="own")
    built: Any = (Agent("a") >> native).build().sub_agents[1]
    assert built is not native
    assert built._connection is native._connection  # pyright: ignore[reportPrivateUsage]  # what is asked about


def test_a_tool_that_escalates_ends_a_loop() -> None:
    """What follows it in the loop may not run."""

    def stop(tool_context: Any) -> str:
        tool_context.actions.escalate = True
        return "stopped"

    loop = shell(
        "LoopAgent", "loop", LlmAgent(name="judge", tools=[stop]), LlmAgent(name="w", output_key="x")
    )
    report = (loop >> Agent("reader").instruct("{x}")).check()
    assert [(issue.agent, issue.key) for issue in report.warnings] == [("reader", "x")]
