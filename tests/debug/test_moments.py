"""Going back to a step of a recording, on from there, and from a recording to a test."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.adk.tools import exit_loop
from google.genai.types import Blob, Content, Part

from adk_fluent import Agent, S, T, gate
from adk_fluent.debug import Recorder, Recording, ReplayerBackend
from adk_fluent.errors import EvalError, RecordingError, ReplayError
from adk_fluent.eval import FluentEvalSuite
from adk_fluent.testing import call_tool, mock_backend
from tests.debug.pipelines import CALLED, PIPELINES, look_up, run_all

DRAFT = Agent("draft").writes("text").tool(look_up)
LINE = (DRAFT >> S.set(round=1) >> Agent("edit").instruct("Edit {text}.") >> Agent("send")).named("line")
SCRIPT = {"draft": [call_tool("look_up", order="7"), "Helo."], "edit": "Hello.", "send": "Sent."}


async def recorded(expression: Any = LINE, script: Any = SCRIPT, turns: int = 1) -> Recording:
    """A recording of some turns."""
    tape = Recorder()
    await run_all(expression, script, tape, turns)
    return tape.get_recording()


async def test_a_moment_says_what_was() -> None:
    """At a step stand the state, the agent with its place in the graph, and what each agent would see."""
    recording = await recorded()
    assert [event.author for event in recording.events] == ["draft", "draft", "draft", "set", "edit", "send"]
    moment = recording.at(4)
    assert (moment.agent, moment.position) == ("set", "line[1].set")
    assert moment.state == {"text": "Helo.", "round": 1}
    assert [*moment.views] == ["edit", "send"]
    assert moment.views["edit"]["instruction"].startswith("Edit Helo.")
    assert recording.at("draft").step == 3
    assert [*recording.at("send").views] == []
    start = recording.at(0)
    assert (start.event, start.state, [*start.views]) == (None, {}, ["draft", "edit", "send"])


async def test_a_moment_can_be_read() -> None:
    """As text a moment shows all of that."""
    lines = str((await recorded()).at(4)).splitlines()
    assert lines[:3] == ["step 4: line[1].set", "  text = 'Helo.'", "  round = 1"]
    assert "edit sees next:" in lines
    assert any(line.startswith("  instruction: Edit Helo.") for line in lines)


@pytest.mark.parametrize(
    ("step", "says"),
    [(9, "There is no step 9: this recording has 6"), (-1, "no step -1"), ("edt", "Did you mean 'edit'")],
)
async def test_a_step_that_is_not_there(step: int | str, says: str) -> None:
    """A step beyond the recording, or of nobody in it, is one line."""
    with pytest.raises(RecordingError, match=says):
        (await recorded()).at(step)


async def test_a_changed_pipeline_runs_on_from_a_step() -> None:
    """Up to the step the recording answers, models and tools; from there on the models themselves do."""
    recording = await recorded()
    CALLED.clear()
    better = DRAFT >> S.set(round=1) >> Agent("edit").instruct("Improve {text}!") >> Agent("check")
    live = mock_backend({"edit": "HELLO.", "check": "Fine."})
    result = await recording.resume(better, at="draft", backend=live)
    assert [event.content for event in result if event.content] == ["Helo.", "HELLO.", "Fine."]
    assert CALLED == []
    config: Any = live.calls["edit"][0].config
    assert config.system_instruction.startswith("Improve Helo.!")
    assert "draft" not in live.calls


async def test_what_comes_before_the_step_must_be_the_same() -> None:
    """Where something else is asked before the step, the mismatch is shown."""
    other = DRAFT.instruct("Write well.") >> Agent("edit")
    with pytest.raises(ReplayError, match=r"(?s)'draft', call 1.*\+ Write well"):
        await (await recorded()).resume(other, at="draft", backend=mock_backend({"edit": "x"}))


async def test_earlier_turns_are_answered_too() -> None:
    """From a step of the second turn on, the first turn is the one that was recorded."""
    recording = await recorded(
        script={"draft": ["one", "two"], "edit": ["a", "b"], "send": ["c", "d"]}, turns=2
    )
    steps = [n for n, step in enumerate(recording.steps, 1) if step.run == 1 and step.event.author == "draft"]
    live = mock_backend({"edit": "E", "send": "S"})
    result = await recording.resume(LINE, at=steps[-1], backend=live)
    assert [event.content for event in result if event.content] == ["two", "E", "S"]
    said = [part.text for content in live.calls["send"][0].contents for part in content.parts or []]
    assert any("one" in str(text) for text in said)


async def test_a_changed_pipeline_goes_on_behind_an_approval() -> None:
    """What a person approved before the step is approved again; after it the changed pipeline goes on."""
    expression, script = PIPELINES["gated"]
    recording = await recorded(expression, script)
    changed = expression >> Agent("c").instruct("It is {ok}.")
    live = mock_backend({"c": "three"})
    result = await recording.resume(changed, at="b", backend=live)
    assert (result.text, result.state["ok"], [*live.calls]) == ("three", {"by": 0}, ["c"])
    assert (await recording.resume(expression, at="a", backend=mock_backend(script))).pending


async def test_without_a_run_nothing_is_resumed() -> None:
    """A recording without runs is one line."""
    with pytest.raises(RecordingError, match="no run"):
        await Recording().resume(LINE, at=0)


# --- from production to test ----------------------------------------------------------------------


async def test_a_case_passes_as_it_stands() -> None:
    """A case of a recording has its turns, tools and answers, and passes on the recorded pipeline."""
    recording = await recorded()
    case = recording.to_case()
    assert (case.input, case.metadata["id"]) == (["turn 0"], f"line-{recording.ir_hash[:8]}")
    assert case.reference_response == ["Sent."]
    suite = FluentEvalSuite(LINE, [case], metrics=["tool_trajectory_avg_score", "response_match_score"])
    report = await suite.run(backend=lambda: ReplayerBackend(recording), engine="light")
    assert report.passed, str(report)


async def test_tools_of_a_case_give_what_they_gave() -> None:
    """Call by call and in every run: other results of the same call, errors; and no others are made up."""
    answers = ["waits", "is sent"]
    asked: list[str] = []

    def status(order: str) -> str:
        """How far an order is."""
        asked.append(order)
        return answers[len(asked) - 1]

    def lose(order: str) -> str:
        """Lose an order."""
        raise ValueError(f"{order} is lost")

    desk = Agent("desk").tools(status, lose) // Agent("other")
    calls = [call_tool("status", order="7")] * 2
    recording = await recorded(desk, {"desk": [*calls, call_tool("lose", order="7")], "other": "Sorry."})
    case = recording.to_case()
    mocks: Any = case.mock_tool_outputs
    assert isinstance(mocks["lose"], ValueError)
    suite = FluentEvalSuite(desk, [case], metrics=["tool_trajectory_avg_score"], num_runs=2)
    report = await suite.run(backend=lambda: ReplayerBackend(recording), engine="light")
    assert (report.passed, asked) == (True, ["7", "7"]), str(report)
    with pytest.raises(RecordingError, match=r"'status' was not called with .*'8'.* but with .*'7'"):
        mocks["status"](order="8")


def remember(order: str, tool_context: Any) -> str:
    """Remember an order."""
    tool_context.state["seen"] = order
    return "noted"


async def leave(tool_context: Any) -> str:
    """Leave the loop."""
    tool_context.actions.escalate = True
    return "left"


def nothing(order: str) -> dict[str, Any]:
    """Give nothing."""
    return {}


READER = Agent("reader").instruct("Read {seen}.")
REMEMBERING = Agent("a").tool(remember)
IMAGE = Part(inline_data=Blob(data=b"\x89PNG", mime_type="image/png"))
BOTH = (Agent("b").tool(remember) >> Agent("d")).named("both")

CASES: dict[str, tuple[Any, Any, Any]] = {
    "a transfer": (
        Agent("a").sub_agents(Agent("b").describe("Helps.")),
        {"a": call_tool("transfer_to_agent", agent_name="b"), "b": "It is I."},
        "hi",
    ),
    "exit_loop": (
        (Agent("a").tool(exit_loop) >> Agent("b")) * 3,
        {"a": ["1", call_tool("exit_loop")], "b": "go on"},
        "hi",
    ),
    "a tool that ends a loop": (
        (Agent("a").tool(leave) >> Agent("b")) * 3,
        {"a": ["1", call_tool("leave"), "2"], "b": "go on"},
        "hi",
    ),
    "state": (REMEMBERING >> READER, {"a": [call_tool("remember", order="7"), "ok"], "reader": "7"}, "hi"),
    "state of two agents": (
        (REMEMBERING | BOTH) >> READER,
        {
            "a": [call_tool("remember", order="7"), "ok"],
            "b": [call_tool("remember", order="8"), "ok"],
            "d": "d",
        },
        "hi",
    ),
    "state, inside a tool": (
        Agent("a").tools(T.agent(BOTH)) >> READER,
        {
            "a": [call_tool("both", request="?"), "so"],
            "b": [call_tool("remember", order="7"), "ok"],
            "d": "d",
        },
        "hi",
    ),
    "an empty dict": (Agent("a").tool(nothing), {"a": [call_tool("nothing", order="7"), "so"]}, "hi"),
    "an image": (Agent("a"), {"a": "A cat."}, ["What is it?", IMAGE]),
    "an image alone": (Agent("a"), {"a": "A cat."}, [IMAGE]),
}


# google-adk 1 takes the result of exit_loop for the answer, and so does its evaluation.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.newest] * (name == "exit_loop")) for name in CASES]
)
async def test_a_case_does_what_was_done(name: str) -> None:
    """What tools did beside their result happens again in a case, and all that the user said is in it."""
    expression, script, prompt = CASES[name]
    tape = Recorder()
    await expression.run(prompt, backend=mock_backend({"reader": "read", **script}), middleware=[tape])
    recording = Recording.from_json(tape.get_recording().to_json())
    metrics = ["tool_trajectory_avg_score", "response_match_score"]
    suite = FluentEvalSuite(expression, [recording.to_case()], metrics=metrics, num_runs=2)
    report = await suite.run(backend=lambda: ReplayerBackend(recording), engine="light")
    assert report.passed, str(report)


async def test_a_case_has_the_pictures_of_answers() -> None:
    """An answer with a picture is a reference with it; a file of a suite cannot hold it, and refuses it."""
    said = Content(role="model", parts=[Part(text="Here."), IMAGE])
    case = (await recorded(Agent("a"), {"a": said}, turns=1)).to_case()
    assert case.reference_response == [said]
    suite = FluentEvalSuite(Agent("a"), [case], metrics=["response_match_score"])
    with pytest.raises(EvalError, match="reference_response: a file has no form for Content"):
        suite.to_yaml()


async def test_what_no_case_can_say() -> None:
    """A question to a person, a run that failed, and a recording of nothing make no case."""
    with pytest.raises(RecordingError, match=r"Run 2 .* answer to a question of 'gate', .* Use to_test\(\)"):
        (await recorded(*PIPELINES["gated"])).to_case()
    waiting = Agent("a") >> gate(lambda s: True, message="Go on?")
    tape = Recorder()
    await waiting.run("hi", backend=mock_backend({"a": "one"}), middleware=[tape])
    with pytest.raises(RecordingError, match="waits for a person's answer to a question of 'gate', "):
        tape.get_recording().to_case()
    with pytest.raises(RecordingError, match=r"Run 1 .* failed \(ValueError: no\)"):
        (await recorded(*PIPELINES["failing"])).to_case()
    with pytest.raises(RecordingError, match="no run"):
        Recording().to_case()


MODULE = """
from adk_fluent import Agent

pipeline = Agent("a").instruct({prompt!r}) >> Agent("b")
"""


async def test_a_test_passes_as_it_stands_and_fails_on_a_change(tmp_path: Path) -> None:
    """The written test passes with the recorded pipeline, and shows what differs from a changed one."""
    pipeline = Agent("a").instruct('Say """hi""".') >> Agent("b")
    recording = await recorded(pipeline, {"a": 'It\'s """hi""" \\ there', "b": "two"})
    path = tmp_path / "flow.py"
    source = recording.to_test(f"{path}:pipeline")
    for prompt, passes in (('Say """hi""".', True), ("Say ho.", False)):
        path.write_text(MODULE.format(prompt=prompt))
        scope: dict[str, Any] = {}
        exec(compile(source, "test_flow.py", "exec"), scope)  # a test is a program
        test = next(value for name, value in scope.items() if name.startswith("test_"))
        done = subprocess_free(test)
        assert (done is None) is passes
        assert passes or ("Say ho." in str(done) and "prompt" in str(done))


def subprocess_free(test: Any) -> Exception | None:
    """What a test that starts its own event loop raises, called where one runs."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(test).exception(60)  # pyright: ignore[reportReturnType]  # no test raises more


def test_targets_that_no_test_can_import() -> None:
    """What is neither module nor file, or has a name that no `import` takes, is refused in one line."""
    odd = ("m:class", "m:None", "class:a", "m:a.def", "m:__debug__", "__future__:annotations", "m:a\nb", ":a")
    for target in ("pipeline", "a b:c", "x.py", "module:a-b", "x.py:a'b", "x\0.py:a", "x.py:class", *odd):
        with pytest.raises(RecordingError, match=r"^to_test\(\) takes .*$"):
            Recording().to_test(target)
    assert "from shop.flow import support\n" in Recording().to_test("shop.flow:support")


MODULES = "m:Recording", "m:recorded.flow", "m:test_it", "m:größe"
TARGETS = *MODULES, "x'\"\n{}\udc80.py:a.b", "a/b c.py:asyncio"
ODD_TEXTS = "\"'", '"""', "\\", '\\"""', "{x}", "a\r\n\t\x00\x0c\x85\u2028\ufeff", "𝕏", "漢\x1b[0m"


@pytest.mark.parametrize("target", TARGETS)
async def test_a_test_is_python_whatever_was_said(target: str) -> None:
    """Odd names, prompts, answers and results leave a test that compiles and holds all of the recording."""

    def echo(word: str) -> str:
        """Say it again."""
        return word

    tape, agent = Recorder(), Agent("a").tool(echo).writes("said")
    for text in ODD_TEXTS:
        held = text.replace("\0", "")  # which no store of sessions takes
        backend = mock_backend({"a": [call_tool("echo", word=text), held]})
        await agent.run(f"Say {text}", state={held: held}, backend=backend, middleware=[tape])
    halves = ["\ud800", "a\udc00\\"]  # neither a message nor the state can hold these
    recording = replace(tape.get_recording(), metadata={"halves": halves})
    tree = ast.parse(recording.to_test(target))
    held = [each.value for each in tree.body if isinstance(each, ast.Assign)][-1]
    assert Recording.from_json(ast.literal_eval(held)) == recording
    loaded = [name for name in ast.walk(tree) if isinstance(name, ast.Name)]
    used = {name.id for name in loaded if isinstance(name.ctx, ast.Load)}
    imported = [name for each in tree.body if isinstance(each, ast.ImportFrom) for name in each.names]
    bound = {name.asname or name.name for name in imported}
    assert (bound - {"Recording", "diff_recordings"} or {"pipeline"}) <= used
