"""Suites in files: ours in YAML, and those of ADK's tools, each way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent
from adk_fluent.errors import EvalError
from adk_fluent.eval import FluentCase, FluentEvalSuite, UserSimulation
from adk_fluent.testing import call_tool
from tests.eval.support import TICKET, Desk, desk, pipeline, scripted

YAML = """\
name: billing_pipeline_v2
metrics: [tool_trajectory_avg_score, response_match_score]
thresholds:
  tool_trajectory_avg_score: 1.0
  response_match_score: 0.7
num_runs: 2
cases:
  - input: "My bill is $200 too high"
    expected_trajectory: [open_ticket]
    tags: [billing, dispute]
  - id: two
    input: ["Which bill?", Open it]
    expected_trajectory: [[find_bill], [{open_ticket: {title: bill}}]]
    reference_response: [null, "Your ticket T-1 is open."]
    state_assertions: {intent: billing}
    state_after: {classifier: {intent: billing}}
    mock_tool_outputs: {open_ticket: T-1}
"""


def written(tmp_path: Path, text: str, name: str = "suite.yaml") -> Path:
    """A file with this text."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


async def test_a_suite_in_yaml_runs(tmp_path: Path) -> None:
    """As it stands in the file."""
    turns = [call_tool("find_bill", month=1), "January.", *TICKET]
    suite = FluentEvalSuite.from_yaml(written(tmp_path, YAML), pipeline, backend=scripted(*turns))
    assert (suite.name, suite.num_runs, list(suite.named_cases)) == (
        "billing_pipeline_v2",
        2,
        ["my_bill_is_200_too_high", "two"],
    )
    report = await suite.run(engine="light")
    assert report.cases["two"].passed, report.summary
    assert len(report.case_results) == 4


def test_yaml_round_trips(tmp_path: Path) -> None:
    """What a suite writes reads as the same suite, and the text is the same again."""
    simulation = UserSimulation(max_turns=3)
    suite = FluentEvalSuite.from_yaml(written(tmp_path, YAML), pipeline, simulation=simulation)
    text = suite.to_yaml(tmp_path / "again.yaml")
    again = FluentEvalSuite.from_yaml(tmp_path / "again.yaml", pipeline)
    assert again.to_yaml() == text
    assert [case.turns for case in again.cases] == [case.turns for case in suite.cases]
    assert again.simulation == suite.simulation


def test_schema_fields_are_written_as_keys() -> None:
    """A value asserted of a schema's field is written under its state key."""
    assert "intent: billing" in desk(FluentCase("x", state_assertions={Desk.intent: "billing"})).to_yaml()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cases:\n  - input: [a\n", "not YAML at line 3, column 1"),
        (
            "cases:\n  - input: a\n    tagz: [b]\n",
            r"line 3, column 11: a case has no 'tagz'\. Did you mean 'tags'",
        ),
        (
            "name: x\nmetric: []\ncases: []",
            r"line 2, column 9: a suite has no 'metric'\. Did you mean 'metrics'",
        ),
        ("cases: 3", "line 1, column 8: a suite has cases: a list"),
        ("- 1", "a suite is a mapping"),
        ("", "a suite is a mapping"),
        ("cases:\n  - input: a\n  - 7\n", "line 3, column 5: a case is a mapping, not 7"),
        ("cases:\n  - input: a\n    input: b\n", "line 3, column 5: 'input' stands twice"),
        ("cases:\n  - input: a\n    tags: billing\n", "line 2, column 5: A case's tags are a list"),
        (
            "cases:\n  - {input: a, expected_trajectory: [opn_ticket]}",
            r"no tool 'opn_ticket'\. Did you mean 'open_",
        ),
        ("cases: [{input: a}]\nmetrics: [response_match]", "no metric 'response_match'"),
        ("cases: [{input: a}]\nnum_runs: many", "num_runs.*not 'many'"),
        ("cases: [{input: a}]\nmetrics: 3", "metrics=. takes a list, not 3"),
        ("cases:\n  - input: !!python/object/apply:os.system ['true']", "not YAML at line 2, column 12"),
        ("cases:\n\t- input: a", "not YAML at line 2, column 1"),
    ],
)
def test_malformed_yaml_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    """One line: file, line and column, and the nearest of what is meant. No code in it runs."""
    with pytest.raises(EvalError, match=said) as told:
        FluentEvalSuite.from_yaml(written(tmp_path, text), pipeline)
    assert "suite.yaml" in str(told.value)
    assert "\n" not in str(told.value)


def test_what_a_file_has_no_form_for_is_refused(tmp_path: Path) -> None:
    """The message names the case and the field; nothing is written."""
    suite = desk(FluentCase("x", state_assertions={"intent": lambda v: True}))
    with pytest.raises(EvalError, match="Case 'x', state_assertions: a file has no form for function"):
        suite.to_yaml(tmp_path / "suite.yaml")
    with pytest.raises(EvalError, match="what JSON has no form for"):
        desk(FluentCase("x", initial_state={"a": object()})).to_eval_set_file(tmp_path / "x.evalset.json")
    assert list(tmp_path.iterdir()) == []


# --- ADK's sets -----------------------------------------------------------------------------------


def expected_set() -> FluentEvalSuite:
    """A suite of which ADK's format can hold everything."""
    return desk(
        FluentCase(
            "open one",
            expected_trajectory=[call_tool("open_ticket", title="bill")],
            reference_response="Your ticket T-1 is open.",
            initial_state={"customer": "Ann"},
            metadata={"id": "one"},
        ),
        FluentCase(
            ["which", "open it"],
            expected_trajectory=[["find_bill"], []],
            reference_response=["January.", "Your ticket T-1 is open."],
            metadata={"id": "two"},
        ),
        metrics=["tool_trajectory_avg_score", "response_match_score"],
    )


def test_adks_sets_each_way(tmp_path: Path) -> None:
    """By file and by object: the same turns, expectations and state."""
    suite, path = expected_set(), tmp_path / "desk.evalset.json"
    left_out = suite.to_eval_set_file(path)
    assert "calls by name beside calls with arguments" in [line.split(":")[0] for line in left_out]
    for source in (path, str(path), suite.to_eval_set()):
        again = FluentEvalSuite.from_eval_set(source, pipeline)
        assert list(again.named_cases) == ["one", "two"]
        assert [case.turns for case in again.cases] == [case.turns for case in suite.cases]
        assert again.cases[0].initial_state == {"customer": "Ann"}
        assert again.thresholds == {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}


def test_what_adks_format_cannot_say_is_told(tmp_path: Path) -> None:
    """Each thing that an exported set leaves out, in one line."""
    suite = desk(
        FluentCase("x", expected_response_contains="T", mock_tool_outputs={"open_ticket": 1}, tags=["a"]),
        metrics=["response_match_score"],
        num_runs=2,
    )
    assert suite.to_eval_set_file(tmp_path / "x.evalset.json") == (
        "case 'x': expected_response_contains",
        "case 'x': mock_tool_outputs",
        "case 'x': tags",
        "case 'x': a turn states no reference, which `adk eval` takes for an empty one",
        "num_runs",
    )


def test_conversation_scenarios_each_way(tmp_path: Path) -> None:
    """A simulated conversation is one of ADK's scenarios."""
    simulation = UserSimulation(persona="Cross.", success_criteria="A refund.")
    suite = FluentEvalSuite(pipeline, [FluentCase("My bill")], simulation=simulation)
    suite.to_eval_set_file(tmp_path / "s.evalset.json")
    (case,) = suite.to_eval_set().eval_cases
    assert case.conversation_scenario is not None
    assert (case.conversation_scenario.starting_prompt, "A refund." in simulation.plan) == ("My bill", True)
    again = FluentEvalSuite.from_eval_set(tmp_path / "s.evalset.json", pipeline)
    assert again.to_eval_set() == suite.to_eval_set()


def test_a_set_that_adks_own_manager_wrote_loads(tmp_path: Path) -> None:
    """With turns as ADK records them: events, ids and all."""
    from google.adk.evaluation.eval_case import EvalCase, Invocation, InvocationEvent, InvocationEvents
    from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager
    from google.genai import types

    call = types.Part(function_call=types.FunctionCall(name="find_bill", args={"month": 1}))
    turn = Invocation(
        invocation_id="i",
        user_content=types.Content(role="user", parts=[types.Part(text="Which bill?")]),
        final_response=types.Content(role="model", parts=[types.Part(text="January.")]),
        intermediate_data=InvocationEvents(
            invocation_events=[InvocationEvent(author="a", content=types.Content(parts=[call]))]
        ),
    )
    manager = LocalEvalSetsManager(str(tmp_path))
    manager.create_eval_set("app", "golden")
    manager.add_eval_case("app", "golden", EvalCase(eval_id="g", conversation=[turn]))
    (path,) = tmp_path.glob("**/*.evalset.json")
    (case,) = FluentEvalSuite.from_eval_set(path, pipeline).cases
    assert (case.input, case.reference_response) == ("Which bill?", "January.")
    assert case.expected_trajectory == [{"find_bill": {"month": 1}}]


def test_the_oldest_format_loads(tmp_path: Path) -> None:
    """A list of queries, as `.test.json` files had it."""
    turn: dict[str, Any] = {
        "query": "Hi",
        "expected_tool_use": [{"tool_name": "find_bill", "tool_input": {}}],
        "expected_intermediate_agent_responses": [],
        "reference": "Hello",
    }
    old: list[dict[str, Any]] = [{"name": "old", "data": [turn], "initial_session": {}}]
    path = written(tmp_path, json.dumps(old), "old.test.json")
    (case,) = FluentEvalSuite.from_eval_set(path, pipeline).cases
    assert (case.input, case.reference_response) == ("Hi", "Hello")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"eval_set_id": "x",\n "eval_cases": [', "not JSON at line 2, column 17"),
        (
            '{"eval_set_id": "x",\n "eval_cases": [{"eval_id": 3}]}',
            "line 2, column 29: this is no set of ADK's: ",
        ),
        ("[1]", "this is no set of ADK's"),
        ("3", "this is no set of ADK's"),
    ],
)
def test_malformed_sets_are_told_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    """One line with the place."""
    with pytest.raises(EvalError, match=said) as told:
        FluentEvalSuite.from_eval_set(written(tmp_path, text, "x.evalset.json"), pipeline)
    assert "\n" not in str(told.value)


async def test_images_in_a_set_reach_the_model(tmp_path: Path) -> None:
    """What a user sent beside text stays."""
    from google.genai import types

    backend = scripted(*TICKET)()
    picture = types.Part.from_bytes(data=b"png", mime_type="image/png")
    said = types.Content(role="user", parts=[types.Part(text="See"), picture])
    first = FluentEvalSuite(Agent("classifier"), [FluentCase(said)])
    first.to_eval_set_file(tmp_path / "p.evalset.json")
    suite = FluentEvalSuite.from_eval_set(
        tmp_path / "p.evalset.json", Agent("classifier"), metrics=[], backend=backend
    )
    assert (await suite.run(engine="light")).passed
    got: Any = backend.calls["classifier"][0].contents[0].parts
    assert [part.text for part in got] == ["See", None]
    assert got[1].inline_data.data == b"png"


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029"])
def test_line_breaks_of_unicode_survive_yaml(tmp_path: Path, sign: str) -> None:
    """Text with a line break that only Unicode has reads back equal, in values and in keys."""
    text = f"one{sign}two \u00fc \N{THUMBS UP SIGN}"
    case = FluentCase(text, reference_response=text, initial_state={text: text})
    FluentEvalSuite(Agent("a"), [case]).to_yaml(tmp_path / "x.yaml")
    assert "\u00fc" in (tmp_path / "x.yaml").read_text(encoding="utf-8")
    (read,) = FluentEvalSuite.from_yaml(tmp_path / "x.yaml", Agent("a")).cases
    assert (read.input, read.reference_response, read.initial_state) == (text, text, {text: text})
