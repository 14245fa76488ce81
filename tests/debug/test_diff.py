"""What differs between two runs: which agent, what, and how much; ids and times never do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, S, race
from adk_fluent.backends import AgentEvent, RunResult, ToolCallInfo, ToolResponseInfo
from adk_fluent.debug import Recorder, Recording, diff_events, diff_recordings
from adk_fluent.errors import ModelError
from adk_fluent.testing import call_tool, mock_backend
from tests.debug.pipelines import PIPELINES, look_up, slowly


def said(*pairs: tuple[str, str], branch: str | None = None) -> list[AgentEvent]:
    """Events of agents that say something."""
    return [AgentEvent(author, text, branch=branch, is_final=True) for author, text in pairs]


BEFORE = said(("draft", "Helo there."), ("check", "Fine."), ("edit", "Hello there."))


def test_the_same_is_no_difference() -> None:
    """Equal runs differ in nothing, however they are called and whenever they were."""
    later = [
        replace(event, id=f"e{n}", invocation_id="other", timestamp=n, session_id="s", metadata={"m": n})
        for n, event in enumerate(BEFORE)
    ]
    partial = AgentEvent("draft", "Hel", is_partial=True)
    diff = diff_events(BEFORE, [partial, *later])
    assert not diff
    assert (len(diff), diff.summary) == (0, "The same 3 events.")


@pytest.mark.parametrize("name", ["an agent as tool", "tools"])
async def test_two_runs_of_agents_inside_tools_are_the_same(name: str) -> None:
    """Neither the ids of the calls they run in count, nor whether the events are of a run or a recording."""
    expression, script = PIPELINES[name]
    recorder = Recorder()
    run = await recorder.install(expression).run("hi", backend=mock_backend(script))
    again = await expression.run("hi", backend=mock_backend(script))
    for other in (again, recorder.get_recording().events):
        assert diff_events(run, other).summary == f"The same {len(run)} events."


def test_what_changed_is_said_with_how_much_is_alike() -> None:
    """A text that changed is one change of its agent, with the similarity shown."""
    diff = diff_events(BEFORE, [*said(("draft", "Hello there.")), *BEFORE[1:]])
    (change,) = diff.changes
    assert (change.kind, change.agent, [*change.fields]) == ("changed", "draft", ["content"])
    assert change.similarity == pytest.approx(22 / 23)
    assert diff.summary == "1 event differs: draft: content changed (96% alike)."
    assert str(diff) == "~ draft: content changed (96% alike)\n    - Helo there.\n    + Hello there."


async def test_a_run_that_ends_with_another_error_is_a_difference() -> None:
    """Its class and its message count; a message that one recording left out does not."""
    recorder = Recorder()
    with pytest.raises(ModelError):
        await recorder.install(Agent("a")).run("hi", backend=mock_backend({"a": ConnectionError("lost")}))
    recording = recorder.get_recording()
    (run,) = recording.runs
    assert run.error is not None

    def ending(**changes: Any) -> Recording:
        error = replace(run.error, **changes) if changes and run.error else None
        return replace(recording, runs=(replace(run, error=error),))

    other = diff_recordings(recording, ending(type="OSError"))
    assert other.errors == {1: ("ConnectionError: lost", "OSError: lost")}
    assert other.summary == "Run 1: its error changed."
    assert str(other) == "Error of run 1:\n  - ConnectionError: lost\n  + OSError: lost"
    assert "OSError: lost" in other.to_html()
    assert diff_recordings(recording, ending()).errors == {1: ("ConnectionError: lost", "")}
    assert diff_recordings(recording, ending(message="gone"))
    assert not diff_recordings(recording, ending(message=""))
    assert not diff_recordings(recording, recording)


def test_missing_added_and_moved_events() -> None:
    """What is gone, what is new, and what only stands elsewhere are told apart."""
    draft, check, edit = BEFORE
    kinds = {
        "missing": ([draft, edit], ["missing"], "check: missing: 'Fine.'"),
        "added": ([*BEFORE, *said(("send", "Sent."))], ["added"], "send: added: 'Sent.'"),
        "moved": ([check, draft, edit], ["moved"], "moved"),
    }
    for after, expected, says in kinds.values():
        diff = diff_events(BEFORE, after)
        assert [change.kind for change in diff.changes] == expected
        assert says in diff.summary


def test_every_field_that_tells_what_happened_counts() -> None:
    """State, tools and their results, transfers and errors are compared; each is named."""
    base = AgentEvent(
        "a",
        tool_calls=[ToolCallInfo("pay", {"to": "Ann"}, "c1")],
        tool_responses=[ToolResponseInfo("pay", {"ok": True}, "c1")],
        state_delta={"k": 1},
    )
    changes: dict[str, Any] = {
        "tool_calls": [ToolCallInfo("pay", {"to": "Bob"}, "c1")],
        "tool_responses": [ToolResponseInfo("pay", {"ok": False}, "c1")],
        "state_delta": {"k": 2},
        "transfer_to": "b",
        "error": "SAFETY: blocked",
        "artifact_delta": {"f.txt": 1},
        "escalate": True,
    }
    for name, value in changes.items():
        (change,) = diff_events([base], [replace(base, **{name: value})]).changes
        assert [*change.fields] == [name]
    other_id = replace(
        base,
        tool_calls=[ToolCallInfo("pay", {"to": "Ann"}, "zz")],
        tool_responses=[ToolResponseInfo("pay", {"ok": True}, "zz")],
    )
    assert not diff_events([base], [other_id])


def test_branches_that_ran_together_may_meet_in_any_order() -> None:
    """Events of parallel branches are compared branch by branch."""
    one, other = said(("a", "1"), ("a", "2"), branch="p.a"), said(("b", "1"), branch="p.b")
    assert not diff_events([*one, *other], [one[0], *other, one[1]])
    assert diff_events([*one, *other], [one[1], *other, one[0]])


def test_it_takes_results_and_recordings_alike() -> None:
    """The events of a run and those of a recording are compared as they are."""
    assert not diff_events(RunResult[str](BEFORE), tuple(BEFORE))


async def recorded(expression: Any, script: Any) -> Recording:
    """A recording of one run."""
    tape = Recorder()
    await expression.run("hi", backend=mock_backend(script), middleware=[tape])
    return tape.get_recording()


async def test_recordings_are_compared_call_by_call() -> None:
    """Requests and tool calls that differ are named with the channel, and what came back with its lines."""
    agent = Agent("a").instruct("Look.").tool(look_up)
    one = await recorded(agent >> Agent("b"), {"a": [call_tool("look_up", order="7"), "x"], "b": "y"})
    changed = agent.instruct("Look well.") >> Agent("b")
    other = await recorded(changed, {"a": [call_tool("look_up", order="8"), "x"], "b": "y"})
    diff = diff_recordings(one, other)
    assert {(change.key, change.call): [*change.channels] for change in diff.requests} == {
        ("a", 1): ["prompt", "response"],
        ("a", 2): ["prompt", "history"],
        ("b", 1): ["history"],
    }
    assert [(change.key, [*change.channels]) for change in diff.tools] == [("a/look_up", ["args", "result"])]
    assert not diff.same_pipeline
    assert diff.summary.endswith("The pipelines differ.")
    text = str(diff)
    for line in ("      - Look.", "      + Look well.", "Model calls:", "Tool calls:"):
        assert line in text.splitlines() or f"  {line}" in text.splitlines()


async def test_calls_that_are_missing_or_new_are_named() -> None:
    """A call that only one recording has is missing or added; equal ones may come in any order."""
    fan = FanOut(Agent("a"), Agent("b"))
    one, two = (
        await recorded(fan, {"a": "1", "b": "2"}),
        await recorded(fan >> Agent("c"), {"a": "1", "b": "2", "c": "3"}),
    )
    diff = diff_recordings(one, two)
    assert [(change.kind, change.key) for change in diff.requests] == [("added", "c")]
    assert [(c.kind, c.key) for c in diff_recordings(two, one).requests] == [("missing", "c")]
    assert not diff_recordings(one, one)
    assert diff_recordings(one, one).summary == "No difference: the same 2 events."


async def test_the_page_shows_all_of_it_and_runs_nothing() -> None:
    """HTML has who, what, before and after, with everything escaped."""
    one = await recorded(Agent("a") >> S.set(k=1), {"a": "<script>alert(1)</script>"})
    two = await recorded(Agent("a") >> S.set(k=2), {"a": "<b>other</b>"})
    page = diff_recordings(one, two).to_html()
    assert page.startswith("<!doctype html>")
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;other" in page
    assert "<script" not in page
    assert "alike" in page
    events = diff_events(one.events, two.events)
    assert events._repr_html_() == events.to_html()  # pyright: ignore[reportPrivateUsage]  # what notebooks call
    assert diff_events(one.events, one.events).to_html() == "<p>The same 2 events.</p>"


async def test_how_far_the_loser_of_a_race_got_is_no_difference() -> None:
    """A call more of a branch that lost is chance; one of the branch that won is a difference."""

    async def recorded(a: Any) -> Recording:
        tape = Recorder()
        backend = mock_backend({"a": a, "b": slowly(9, "b"), "c": slowly(60, "c")})
        await race(Agent("a") >> Agent("c"), Agent("b")).run("go", backend=backend, middleware=[tape])
        return tape.get_recording()

    near, far = await recorded(slowly(60, "a")), await recorded("a")
    assert [len(each.llm_interactions) for each in (near, far)] == [2, 3]
    assert "c" not in [change.key for change in diff_recordings(near, far).requests]
    winner = replace(near.choices[0], winner="sequence")
    more = replace(far, choices=(winner,))
    assert "c, call 1: added" in [str(change) for change in diff_recordings(near, more).requests]


async def test_whether_a_loser_was_answered_in_time_is_no_difference() -> None:
    """What came in the round in which another branch won may be there or not; what was asked counts."""
    tape = Recorder()
    backend = mock_backend({"a": slowly(60, "late"), "b": "first"})
    await race(Agent("a"), Agent("b")).run("go", backend=backend, middleware=[tape])
    recording = tape.get_recording()
    lost, won = sorted(recording.llm_interactions, key=lambda call: call.agent_name)
    answered = replace(lost, chunks=(replace(won.chunks[0], seq=lost.started + 1),))
    step = recording.steps[0]
    event = replace(step.event, author="a", branch=lost.branch)
    said = replace(step, event=event, seq=lost.started + 2, lost=True)
    other = replace(recording, llm_interactions=(answered, won), steps=(said, *recording.steps))
    assert not diff_recordings(recording, other), str(diff_recordings(recording, other))
    asked = replace(answered, request={**lost.request, "instruction": "Other."})
    assert diff_recordings(recording, replace(recording, llm_interactions=(asked, won)))
