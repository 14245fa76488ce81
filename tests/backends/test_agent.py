"""Single agents: instructions, schemas, tools, callbacks, delegation, and use below and as ADK objects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Pipeline, S, gate
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm
from adk_fluent.errors import ADKFluentError, AnswerError, CompileError, MissingKeyError
from adk_fluent.ir import AgentNode
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import ANYWAY, play, raises_from, said, script, seen, speakers, system

A, B, C = Agent("a"), Agent("b"), Agent("c")


class Invoice(BaseModel):
    total: float
    currency: str = "EUR"


def scripted(agent: str, *responses: Any) -> ScriptedLlm:
    """A scripted model to hand to an agent itself."""
    return ScriptedLlm.of(Script(agent, list(responses), "repeat", []), merge_state=False)


# --- instructions ---------------------------------------------------------------------------------


async def test_placeholders_are_filled_in() -> None:
    """Keys of all scopes, optional ones and spaces inside the braces are filled from state."""
    backend = script()
    await A.instruct("{x} {user:u} { y } {gone?}|").run(
        "hi", backend=backend, state={"x": 1, "user:u": "U", "y": [2]}, user_id="fill"
    )
    assert "1 U [2] |" in system(backend.calls["a"][0])


async def test_other_braces_are_left_alone() -> None:
    """JSON and dotted names in braces are plain text."""
    backend = script()
    await A.instruct('{"k": 1} {a.b} {0} {}').run("hi", backend=backend)
    assert '{"k": 1} {a.b} {0} {}' in system(backend.calls["a"][0])


async def test_a_missing_key_nobody_writes() -> None:
    """The whole message: which agent, which key, that nobody writes it, and what to do."""
    with pytest.raises(MissingKeyError) as caught:
        await play(A.writes("draft") >> B.instruct("Improve {drafts}"), config=ANYWAY)
    assert str(caught.value) == (
        "Agent 'b' needs state key 'drafts' for its instruction, and it is not set. Nothing in this pipeline "
        "writes it. Did you mean 'draft'? Add .writes('drafts') to an earlier agent, pass "
        "state={'drafts': ...}, or write {drafts?} if it may be missing. "
        "If you mean the text {drafts}, write \\{drafts}."
    )


async def test_a_missing_key_that_somebody_could_have_written() -> None:
    """If agents of the tree write the key, but did not before, they are named."""
    late = A.writes("draft") >> S.set(draft="x").named("fix")
    with pytest.raises(MissingKeyError) as caught:
        await play(B.instruct("Improve {draft}") >> late, config=ANYWAY)
    assert str(caught.value) == (
        "Agent 'b' needs state key 'draft' for its instruction, and it is not set. It is written by 'a', "
        "'fix', which did not write it before 'b' ran."
    )


async def test_a_missing_key_of_a_single_agent() -> None:
    """The message is the same for an agent that is the whole expression."""
    with pytest.raises(MissingKeyError, match=r"^Agent 'a' needs state key 'x'"):
        await play(A.instruct("{x}"), config=ANYWAY)


async def test_a_key_that_was_dropped_is_missing() -> None:
    """A dropped key is absent for instructions too, not an empty text."""
    with pytest.raises(MissingKeyError, match="'x'"):
        await play(S.set(x=1) >> S.drop("x") >> A.instruct("{x}"), config=ANYWAY)


async def test_a_missing_key_suggests_what_is_in_the_state() -> None:
    """The nearest name may also come from the session's state."""
    with pytest.raises(MissingKeyError, match=r"Did you mean 'topic'\?"):
        await play(A.instruct("{topics}"), state={"topic": "x"}, config=ANYWAY)


async def test_a_callback_may_provide_a_missing_key() -> None:
    """The key is needed when the model is called, so a callback before the agent can still set it."""

    def provide(callback_context: Any) -> None:
        callback_context.state["x"] = "late"

    backend = script()
    await A.instruct("{x}").before_agent(provide).run("hi", backend=backend)
    assert "late" in system(backend.calls["a"][0])


async def test_a_function_as_instruction() -> None:
    """A function of the context is called for each run, and what it gives is used as it is."""
    backend = script()
    expression = A.instruct(lambda ctx: f"State: {ctx.state.get('x')} {{left}}")
    await expression.run("hi", backend=backend, state={"x": 1})
    assert "State: 1 {left}" in system(backend.calls["a"][0])


async def test_a_static_instruction_goes_first() -> None:
    """With `static` the fixed text is the system instruction, the other one reaches the model as content."""
    backend = script()
    await A.static("You are terse.").instruct("Topic: {x}").run("hi", backend=backend, state={"x": "tea"})
    request = backend.calls["a"][0]
    assert "You are terse." in system(request)
    assert "Topic: tea" not in system(request)
    assert "Topic: tea" in seen(request)


async def test_a_global_instruction_of_the_root_reaches_its_delegates() -> None:
    """The root's global instruction is given to every agent below it."""
    backend = script({"boss": call_tool("transfer_to_agent", agent_name="helper")})
    boss = Agent("boss").global_instruct("Be kind, {name}.").delegate(Agent("helper").describe("Helps."))
    await boss.run("hi", backend=backend, state={"name": "Ann"})
    assert "Be kind, Ann." in system(backend.calls["boss"][0])
    assert "Be kind, Ann." in system(backend.calls["helper"][0])


async def test_a_global_instruction_that_does_not_count_needs_no_keys() -> None:
    """Only the root's global instruction is used, so the keys of another's may be missing."""
    assert speakers(await play(A.global_instruct("{missing}") >> B)) == ["a", "b"]


# --- schemas --------------------------------------------------------------------------------------


async def test_output_is_the_model() -> None:
    """With `returns` the result's `.output` and `ask_async` are the parsed model."""
    backend = script({"a": {"total": 3}})
    assert (await (A @ Invoice).run("hi", backend=backend)).output == Invoice(total=3)
    assert await (B >> A @ Invoice).ask_async("hi", backend=backend) == Invoice(total=3)


async def test_the_answer_is_stored_as_a_dict() -> None:
    """With `returns` and `writes`, the state holds the parsed fields."""
    result = await play((A @ Invoice).writes("invoice"), {"a": {"total": 3}})
    assert result.state == {"invoice": {"total": 3.0, "currency": "EUR"}}


async def test_an_answer_that_does_not_fit() -> None:
    """An answer that is not what was promised is an error of ours that names the agent and the type."""
    with pytest.raises(ADKFluentError, match=r"'a' answered .*no json.* is not a Invoice"):
        await (A @ Invoice).ask_async("hi", backend=script({"a": "no json"}))


async def test_the_run_of_an_answer_that_does_not_fit_can_be_looked_at() -> None:
    """The step raises, and the error has what the run did until then, without the wrong answer."""
    with pytest.raises(AnswerError, match="'a' answered 'no json'") as caught:
        await play(B >> A @ Invoice, {"a": "no json", "b": "before"})
    assert caught.value.result is not None
    assert [event.content for event in caught.value.result] == ["before"]


async def test_output_of_a_reused_agent() -> None:
    """A second use of the agent is parsed like the first."""
    result = await play((A @ Invoice) >> B >> (A @ Invoice), {"a": [{"total": 1}, {"total": 2}]})
    assert result.output == Invoice(total=2)


async def test_output_of_the_branch_that_ran() -> None:
    """What is parsed is what the agent that answered promises."""
    expression = B // (A @ Invoice)
    assert (await play(expression, {"b": RuntimeError("no"), "a": {"total": 1}})).output == Invoice(total=1)
    assert (await play(expression, {"b": "plain"})).output == "plain"


async def test_an_error_event_is_not_an_answer() -> None:
    """If the model reports an error, `ask_async` raises it with the agent's name and gives nothing."""
    backend = script({"a": LlmResponse(error_code="SAFETY", error_message="blocked")})
    with pytest.raises(ADKFluentError, match="'a' gave no answer but an error: SAFETY: blocked"):
        await A.ask_async("hi", backend=backend)


# --- tools and callbacks --------------------------------------------------------------------------


async def test_tools_run_and_their_results_reach_the_model() -> None:
    """A scripted call really runs the function; events and the next request show it."""

    def add(x: int, y: int) -> int:
        """Add two numbers."""
        return x + y

    backend = script({"a": [call_tool("add", x=2, y=3), "five"]})
    result = await A.tool(add).run("hi", backend=backend)
    assert [(c.tool_name, c.args) for e in result for c in e.tool_calls] == [("add", {"x": 2, "y": 3})]
    assert [(r.tool_name, r.result) for e in result for r in e.tool_responses] == [("add", {"result": 5})]
    assert result.text == "five"
    assert "'result': 5" in str(backend.calls["a"][1].contents)


async def test_a_tool_may_write_state() -> None:
    """What a tool writes is in the state for the next step."""

    def remember(tool_context: ToolContext) -> str:
        """Remember."""
        tool_context.state["kept"] = "yes"
        return "ok"

    expression = A.tool(remember) >> B.instruct("{kept}")
    assert (await play(expression, {"a": [call_tool("remember"), "done"]})).state == {"kept": "yes"}


async def test_a_tool_that_raises_is_named_with_its_agent() -> None:
    """An error inside a tool ends the run, naming tool and agent; the error itself is the cause."""
    problem = ValueError("tool")

    def fail() -> str:
        """Fail."""
        raise problem

    with raises_from(ValueError, match="tool") as caught:
        await play(A.tool(fail) >> B, {"a": call_tool("fail")})
    assert caught.value.__cause__ is problem


async def test_callbacks_run_in_order() -> None:
    """Every callback is called, in the order in which they were added, around agent, model and tool."""
    order: list[str] = []

    def note(name: str) -> Any:
        def callback(*args: Any, **kwargs: Any) -> None:
            order.append(name)

        return callback

    def look() -> str:
        """Look."""
        return "seen"

    agent = (
        A.tool(look)
        .before_agent(note("before agent 1"))
        .before_agent(note("before agent 2"))
        .before_model(note("before model"))
        .after_model(note("after model"))
        .before_tool(note("before tool"))
        .after_tool(note("after tool"))
        .after_agent(note("after agent"))
    )
    await play(agent, {"a": [call_tool("look"), "done"]})
    assert order == [
        "before agent 1", "before agent 2", "before model", "after model", "before tool", "after tool",
        "before model", "after model", "after agent",
    ]  # fmt: skip


async def test_a_callback_may_answer_instead_of_the_model() -> None:
    """Content from `before_model` stands for the answer; the model is not called."""

    def answer(callback_context: Any, llm_request: Any) -> LlmResponse:
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="cached")]))

    backend = script()
    result = await (A.before_model(answer).writes("k") >> B).run("hi", backend=backend)
    assert said(result)[0] == ("a", "cached")
    assert result.state == {"k": "cached"}
    assert backend.calls["a"] == []


async def test_a_callback_may_skip_the_agent() -> None:
    """Content from `before_agent` is the agent's answer, and the next step runs."""

    def skip(callback_context: Any) -> types.Content:
        return types.Content(role="model", parts=[types.Part(text="skipped")])

    assert said(await play(A.before_agent(skip) >> B)) == [("a", "skipped"), ("b", "ok")]


async def test_a_callback_may_rescue_a_failed_model() -> None:
    """An answer from `on_model_error` takes the place of the error."""

    def rescue(callback_context: Any, llm_request: Any, error: Exception) -> LlmResponse:
        return LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=f"saved from {error}")])
        )

    result = await play(A.on_model_error(rescue) >> B, {"a": RuntimeError("down")})
    assert said(result)[0] == ("a", "saved from down")


async def test_state_from_a_callback_is_stored() -> None:
    """What callbacks write reaches later agents and the session."""

    def write(callback_context: Any) -> None:
        callback_context.state["from_callback"] = 1

    assert (await play(A.after_agent(write) >> B.instruct("{from_callback}"))).state == {"from_callback": 1}


# --- delegation -----------------------------------------------------------------------------------


async def test_a_model_hands_over() -> None:
    """A model that calls `transfer_to_agent` makes its delegate answer, and the next step follows."""
    boss = Agent("boss").delegate(A.describe("Does a."), B.describe("Does b."))
    result = await play(boss >> C, {"boss": call_tool("transfer_to_agent", agent_name="b")})
    assert speakers(result) == ["b", "c"]


async def test_delegates_are_offered_to_the_model() -> None:
    """The request of the boss names its delegates and their descriptions."""
    backend = script()
    await Agent("boss").delegate(A.describe("Knows bills.")).run("hi", backend=backend)
    assert "Knows bills." in system(backend.calls["boss"][0])


@pytest.mark.parametrize(
    ("delegate", "spoken"),
    [
        (Pipeline("steps", A, B), ["a", "b"]),
        (FanOut("steps", A), ["a"]),
        ((A * 2).named("steps"), ["a", "a"]),
        ((A // B).named("steps"), ["a"]),
        (A.timeout(60).named("steps"), ["a"]),
        (A.proceed_if(lambda s: True).named("steps"), ["a"]),
    ],
)
async def test_a_model_hands_over_to_a_composite(delegate: Any, spoken: list[str]) -> None:
    """Any named expression can be a delegate."""
    boss = Agent("boss").delegate(delegate)
    result = await play(boss, {"boss": call_tool("transfer_to_agent", agent_name="steps")})
    assert speakers(result) == spoken


async def test_a_specialist_stays_active() -> None:
    """As in ADK, the next message goes to the agent that was handed over to."""
    boss = Agent("boss").delegate(A.describe("Does a."))
    responses = {"boss": call_tool("transfer_to_agent", agent_name="a")}
    backend = script(responses)
    for _ in range(2):
        result = await boss.run("hi", backend=backend, session_id="specialist")
        assert speakers(result) == ["a"]
    assert len(backend.calls["boss"]) == 1


async def test_an_expression_as_a_sub_agent_of_a_native_agent() -> None:
    """What `build()` gives can be a sub-agent of a hand-written ADK agent."""
    steps = Pipeline(
        "steps", Agent("x", scripted("x", "from x")).writes("k"), S.compute(n=lambda s: len(s["k"]))
    )
    boss = LlmAgent(
        name="boss",
        model=scripted("boss", call_tool("transfer_to_agent", agent_name="steps")),
        sub_agents=[steps.build()],
    )
    state, texts = await native(boss)
    assert texts == ["from x"]
    assert state == {"k": "from x", "n": 6}


# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
async def test_an_expression_as_a_tool_of_a_native_agent() -> None:
    """What `build()` gives can be an `AgentTool`; its state reaches the caller."""
    steps = Pipeline(
        "steps", Agent("x", scripted("x", "from x")).writes("k"), Agent("y", scripted("y", "from y"))
    )
    boss = LlmAgent(
        name="boss",
        model=scripted("boss", call_tool("steps", request="go"), "done"),
        tools=[AgentTool(steps.build())],
    )
    state, texts = await native(boss)
    assert texts == ["done"]
    assert state == {"k": "from x"}


async def test_an_agent_that_can_pause_as_a_sub_agent() -> None:
    """A gate below a native agent stops its run as well."""
    steps = Pipeline(
        "steps", Agent("x", scripted("x", "from x")), gate(lambda s: True), Agent("y", scripted("y", "y"))
    )
    boss = LlmAgent(
        name="boss",
        model=scripted("boss", call_tool("transfer_to_agent", agent_name="steps")),
        sub_agents=[steps.build()],
    )
    _, texts = await native(boss)
    assert texts == ["from x"]


async def native(agent: LlmAgent) -> tuple[dict[str, Any], list[str]]:
    """Run a native agent on ADK's own in-memory runner: the state and the texts."""
    runner = InMemoryRunner(agent=agent, app_name="native")
    session = await runner.session_service.create_session(app_name="native", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    texts = [
        part.text
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)
        for part in (event.content.parts if event.content else None) or []
        if part.text
    ]
    found = await runner.session_service.get_session(app_name="native", user_id="u", session_id=session.id)
    assert found is not None
    return dict(found.state), texts


# --- compiling ------------------------------------------------------------------------------------


def test_build_gives_fresh_objects() -> None:
    """Each `build()` gives new agents, so two of them can have different parents."""
    one, two = (A >> B).build(), (A >> B).build()
    assert one is not two
    assert one.sub_agents[0] is not two.sub_agents[0]
    LlmAgent(name="left", sub_agents=[one])
    LlmAgent(name="right", sub_agents=[two])


def test_what_adk_refuses_is_named() -> None:
    """An option that the installed google-genai does not know is an error that names agent and option."""
    options: Any = GenerateOptions((("temprature", 1),))
    newer = AgentNode(name="a", generate_content_config=options)
    with pytest.raises(CompileError) as caught:
        Agent[str].from_node(newer).build()
    assert str(caught.value) == (
        "'a': the installed google-genai has no option 'temprature' for generate(). Did you mean "
        "'temperature'? Remove it, or use a newer google-genai."
    )


def test_a_wrong_value_for_a_field_is_named() -> None:
    """So is a value of the wrong type."""
    wrong: dict[str, Any] = {"temperature": "hot"}
    with pytest.raises(CompileError, match=r"'a': generate\(temperature=\)"):
        A.generate(**wrong).build()


# --- no model -------------------------------------------------------------------------------------


@pytest.fixture
def default_model() -> Iterator[str]:
    """A default of the program's own, for agents that name no model."""
    LlmAgent.set_default_model("house-model")
    yield "house-model"
    LlmAgent.set_default_model(LlmAgent.DEFAULT_MODEL)


def test_the_default_model_is_told_once(caplog: pytest.LogCaptureFixture, default_model: str) -> None:
    """Name each agent that has no model, and none above it, once, with the model that answers for it."""
    caplog.set_level(logging.INFO, "adk_fluent.models")
    boss = Agent("boss_with_a_model", "gemini-2.5-pro").delegate(Agent("helper_of_boss"))
    for _ in range(2):
        (Agent("first_unnamed") >> boss >> Agent("second_unnamed")).to_app()
    assert [record.getMessage() for record in caplog.records if record.name == "adk_fluent.models"] == [
        f"'first_unnamed', 'second_unnamed' name no model, so ADK's default is asked: {default_model}. "
        "To choose one, write Agent('first_unnamed', model)."
    ]


async def test_scripted_models_are_no_default(caplog: pytest.LogCaptureFixture) -> None:
    """Where a script answers, no line says that ADK's default does."""
    caplog.set_level(logging.INFO, "adk_fluent.models")
    await Agent("scripted_unnamed").run("hi", backend=mock_backend({"scripted_unnamed": "ok"}))
    assert [record for record in caplog.records if record.name == "adk_fluent.models"] == []


async def test_a_default_of_the_program_s_own_is_named_everywhere(default_model: str) -> None:
    """Scripted answers, and what they cost, go by the model that ADK would ask."""
    run = await Agent("a").run("hi", backend=mock_backend({"a": "ok"}))
    assert {event.model for event in run if event.model} == {default_model}
