"""`adk-fluent run`: one turn, chats, JSON, approvals, failures, and stored sessions."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import ANSI, COMMAND, PIPELINES, Cli, environment, in_terminal, state, stored
from tests.cli.gemini import Gemini, serve_models
from tests.limits import LIMIT, in_time
from tests.processes import run

KEYS = (
    *(
        "type",
        "author",
        "text",
        "partial",
        "final",
        "visibility",
        "state",
        "tool_calls",
        "tool_results",
        "transfer_to",
    ),
    *("pending", "usage", "model", "error", "branch", "id", "invocation_id", "timestamp"),
)

pytestmark = pytest.mark.newest  # it starts programs, which takes long, and is the same everywhere


def lines(text: str) -> list[str]:
    """Lines without the times, which differ."""
    return [line.split("   ")[0] for line in text.splitlines()]


def test_a_run_shows_who_speaks_and_what_went_to_state(cli: Cli) -> None:
    """With `--verbose` each agent has its name, its words and the keys it wrote; nothing else is printed."""
    done = cli("run", PIPELINES, "Hi", "--verbose")
    assert (done.code, done.err) == (0, "")
    shown = lines(done.out)
    assert shown[:3] == ["● writer  internal", "  Hello from the writer.", "  → draft"]
    assert shown[3:6] == ["", "● editor", "  Hello."]
    assert "7 tokens" in done.out


def test_a_pipe_gets_the_answer_alone(cli: Cli) -> None:
    """Where the output is no terminal, it is what the user should see, and nothing around it."""
    done = cli("run", PIPELINES, "Hi")
    assert (done.code, done.out, done.err) == (0, "Hello.\n", "")
    answers = cli("run", f"{PIPELINES}:both", "Hi").out.removesuffix("\n").split("\n\n")
    assert sorted(answers) == ["four five", "one two three"]


def test_a_pipe_gets_no_answer_that_was_withdrawn(cli: Cli) -> None:
    """What a failed branch had begun to say is not in the output."""
    assert cli("run", f"{PIPELINES}:half_saved", "Hi").out == "Hello from the writer.\n"


def test_a_skipped_step_leaves_the_answer_to_the_one_before(cli: Cli) -> None:
    """Where nobody visible spoke, since the last step was skipped, the words before it are the answer."""
    assert cli("run", f"{PIPELINES}:skipped", "Hi").out == "Hello from the writer.\n"


def test_state_before_the_first_turn(cli: Cli) -> None:
    """--state is in the session when the run begins, so neither the check nor the run misses the key."""
    done = cli("run", f"{PIPELINES}:needy", "Hi", "--state", "nothing_writes_this=hammer", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out.splitlines()[-1])["state"] == {"nothing_writes_this": "hammer"}


def results(out: str) -> list[dict[str, Any]]:
    """What each turn came to, of the output with --json."""
    return [found for line in out.splitlines() if (found := json.loads(line))["type"] == "result"]


def test_state_is_given_once_in_a_chat(cli: Cli) -> None:
    """--state is there before the first turn; what the turns make of it is not set back."""
    given = ("--state", "n=5", "--state", "tier=gold")
    done = cli("run", f"{PIPELINES}:counted", *given, "--json", stdin="a\nb\n")
    assert (done.code, done.err) == (0, "")
    assert [result["state"] for result in results(done.out)] == [
        {"n": 6, "tier": "gold"},
        {"n": 7, "tier": "gold"},
    ]


def test_state_is_given_to_a_session_that_goes_on(cli: Cli, tmp_path: Path) -> None:
    """With a session that is there, --state replaces what it names and leaves the rest."""
    again = ["run", f"{PIPELINES}:counted", "Hi", "--session-db", "kept.db", "--session", "s", "--json"]
    cli(*again, "--state", "n=5", "--state", "tier=gold")
    (result,) = results(cli(*again, "--state", "tier=silver").out)
    assert result["state"] == state(tmp_path / "kept.db", "s") == {"n": 7, "tier": "silver"}
    assert result["session_id"] == "s"


def test_of_two_values_for_one_state_key_the_last_wins(cli: Cli) -> None:
    """--state may be given several times; a key that comes again has its last value."""
    given = ("--state", "n=1", "--state", "tier=gold", "--state", "n=8", "--state", 'tier="silver"')
    (result,) = results(cli("run", f"{PIPELINES}:counted", "Hi", *given, "--json").out)
    assert result["state"] == {"n": 9, "tier": "silver"}


GATES = [
    ("y\ny\n", 2, "Hello."),
    ("y\nn\n", 2, "Not approved: Really?"),
    ("n\ny\n", 1, "Not approved: Send it?"),
]


@pytest.mark.parametrize(("typed", "asked", "end"), GATES, ids=["both", "the first", "none"])
def test_gates_one_after_the_other_are_asked_in_one_run(cli: Cli, typed: str, asked: int, end: str) -> None:
    """Each gate is asked once it is reached, and the first that is refused ends the run."""
    done = cli("run", f"{PIPELINES}:gates", "Hi", "-v", stdin=typed)
    questions = [line for line in done.out.splitlines() if " asks: " in line]
    assert done.code == 0
    assert questions == ["■ gate asks: Send it?", "■ second asks: Really?"][:asked]
    assert end in done.out
    assert ("● editor" in done.out) == (end == "Hello.")
    (result,) = results(cli("run", f"{PIPELINES}:gates", "Hi", "--json", stdin=typed).out)
    assert result["text"] == end


def test_the_question_of_a_gate_does_not_mix_with_the_answer() -> None:
    """Where only the output goes into a pipe, a gate asks the person on the error output."""
    inner, outer = pty.openpty()
    command = (COMMAND, "run", f"{PIPELINES}:gated", "Hi")
    os.write(inner, b"y\n")
    done = run(*command, stdin=os.ttyname(outer), environment=environment())
    os.close(inner)
    os.close(outer)
    asked = "gate asks: Send it? (only y or yes approves)\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", asked)


def test_a_policy_holds_for_json_too(cli: Cli) -> None:
    """`.filtered()` blanks what agents say to each other in the objects as well."""
    done = cli("run", f"{PIPELINES}:discreet", "Hi", "--json")
    *events, result = [json.loads(line) for line in done.out.splitlines()]
    assert {event["visibility"]: event["text"] for event in events} == {"internal": None, "user": "Hello."}
    assert [event["state"] for event in events if event["state"]] == [{"draft": "Hello from the writer."}]
    assert result["text"] == "Hello."


@pytest.mark.parametrize("verbose", [False, True])
def test_a_terminal_shows_who_works_behind_the_answer(verbose: bool) -> None:
    """On a terminal agents that speak to others are a line each, without their words, unless asked for."""
    shown = ANSI.sub("", in_terminal("run", PIPELINES, "Hi", *["-v"] * verbose))
    assert ("Hello from the writer." in shown) is verbose
    assert [line.split("  ")[0] for line in shown.splitlines() if line.startswith(("○", "●"))] == (
        ["● writer", "● editor"] if verbose else ["○ writer", "● editor"]
    )
    assert "\n  Hello.\n" in shown


def test_a_terminal_shows_the_answer_of_one_who_stands_in() -> None:
    """On a terminal the answer appears although its agent speaks to others when nobody is skipped."""
    shown = ANSI.sub("", in_terminal("run", f"{PIPELINES}:skipped", "Hi")).splitlines()
    assert shown[0].startswith("○ writer   → draft   7 tokens")
    assert shown[1:] == ["", "● writer", "  Hello from the writer."]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("native", "I am ADK's own."),
        ("native_app", "From the app."),
        ("built", "Hello from the writer."),
        ("team", "Mine."),
    ],
)
def test_native_agents_and_apps_run(cli: Cli, name: str, said: str) -> None:
    """An ADK agent, an App and what `build()` gave run like an expression."""
    done = cli("run", f"{PIPELINES}:{name}", "Hi", "--verbose")
    assert done.code == 0
    assert f"  {said}" in done.out.splitlines()


def test_branches_that_speak_at_once_are_shown_one_after_the_other(cli: Cli) -> None:
    """The words of two branches are not mixed."""
    done = cli("run", f"{PIPELINES}:both", "Hi", "-v")
    assert done.out.splitlines()[0] == "∥ at the same time: left, right"
    assert "  one two three" in done.out.splitlines()
    assert "  four five" in done.out.splitlines()


def test_a_tool_call_and_its_result_are_shown(cli: Cli) -> None:
    """A tool call shows its arguments and what it gave."""
    done = cli("run", f"{PIPELINES}:tools", "Weather?", "-v")
    assert "  clerk calls weather(city=Rome)" in done.out
    assert '  weather gave {"result": "sunny"}' in done.out


def test_what_would_steer_the_terminal_is_left_out(cli: Cli) -> None:
    """Escape sequences and control characters in an answer are not printed."""
    done = cli("run", f"{PIPELINES}:hostile", "Hi")
    assert done.out == "red alert here\n"
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


def test_json_has_one_object_per_event_with_the_same_keys(cli: Cli) -> None:
    """`--json` prints an object a line: events with one set of keys, then the result."""
    done = cli("run", PIPELINES, "Hi", "--json")
    *events, result = [json.loads(line) for line in done.out.splitlines()]
    assert {tuple(event) for event in events} == {KEYS}
    assert [e["text"] for e in events if e["partial"]] == ["Hello ", "from ", "the ", "writer. ", "Hello. "]
    assert [e["state"] for e in events if e["state"]] == [{"draft": "Hello from the writer."}]
    assert [e["usage"] for e in events if e["usage"]] == [{"input_tokens": 3, "output_tokens": 4}] * 2
    assert result["type"] == "result"
    assert result["text"] == "Hello."
    assert result["state"] == {"draft": "Hello from the writer."}


def test_a_chat_keeps_one_session_until_an_empty_line(cli: Cli) -> None:
    """Without PROMPT every line is a turn of one session; an empty line ends it and the rest is not read."""
    done = cli("run", PIPELINES, "--json", stdin="one\ntwo\n\nthree\n")
    results = [json.loads(line) for line in done.out.splitlines() if '"type": "result"' in line]
    assert done.code == 0
    assert len(results) == 2
    assert results[0]["session_id"] == results[1]["session_id"]


def test_a_chat_ends_with_the_input(cli: Cli) -> None:
    """The end of the input ends the chat, with exit code 0."""
    done = cli("run", PIPELINES, stdin="one\n")
    assert (done.code, done.out) == (0, "Hello.\n\n")


def test_a_session_in_a_file_goes_on(cli: Cli, tmp_path: Path) -> None:
    """Two runs with the same file and session are one conversation."""
    again = ["run", PIPELINES, "--session-db", "kept.db", "--session", "s1"]
    cli(*again, "first")
    cli(*again, "second")
    texts = [text for author, text in stored(tmp_path / "kept.db", "s1") if author == "user"]
    assert texts == ["first", "second"]


@pytest.mark.parametrize("answer", ["y", "Y", "yes", "YES", "  Yes\t"])
def test_yes_approves(cli: Cli, answer: str) -> None:
    """A gate asks on the terminal's input; `y` and `yes`, in any case, go on."""
    done = cli("run", f"{PIPELINES}:gated", "Hi", "-v", stdin=f"{answer}\n")
    assert done.code == 0
    assert "■ gate asks: Send it?" in done.out
    assert "● editor" in done.out


@pytest.mark.parametrize("answer", ["n", "yeah", "yes!", "y es", "ye", "true", "1", "ok", "j"])
def test_nothing_else_approves(cli: Cli, answer: str) -> None:
    """Anything but `y` and `yes` refuses."""
    done = cli("run", f"{PIPELINES}:gated", "Hi", "-v", stdin=f"{answer}\n")
    assert done.code == 0
    assert "Not approved: Send it?" in done.out
    assert "editor" not in done.out


@pytest.mark.parametrize("typed", [b"y\n", b"yeah\n", b"\n", b"\x04"], ids=["y", "yeah", "empty", "end"])
def test_the_prompt_says_what_approves(typed: bytes) -> None:
    """On a terminal the prompt says that only y or yes does; an empty line or the input's end does not."""
    shown = ANSI.sub("", in_terminal("run", f"{PIPELINES}:gated", "Hi", typed=typed))
    assert "■ gate asks: Send it?" in shown
    assert "Only y or yes approves: " in shown
    assert ("Not approved: Send it?" in shown) is (typed != b"y\n")


def test_a_tool_is_asked_for_in_words(cli: Cli) -> None:
    """The question about a tool names it with its arguments, and nothing that is meant for programs."""
    done = cli("run", f"{PIPELINES}:careful", "Hi", "-v", stdin="y\n")
    assert '■ clerk asks: Run weather(city="Rome")?\n' in done.out
    assert "FunctionResponse" not in done.out
    assert "sunny" in done.out


def test_a_tool_that_asks_in_its_own_words_is_named(cli: Cli) -> None:
    """To what a tool itself asks, the call that asks is added."""
    done = cli("run", f"{PIPELINES}:asking", "Hi", "-v", stdin="y\n")
    assert '■ clerk asks: Shall I look out? weather(city="Rome")\n' in done.out
    assert "sunny" in done.out


def test_a_question_cannot_steer_the_terminal(cli: Cli) -> None:
    """What a model wrote into a gate's message is shown without what would steer the terminal."""
    done = cli("run", f"{PIPELINES}:hostile_gate", "Hi", "-v", stdin="y\n")
    assert "■ gate asks: Send red alert here?" in done.out
    assert "\x1b" not in done.out.split("asks:")[1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gated", r"'gate' waits for approval, 'gate-[\w-]+': Send it\? .* input \(y or yes approves\); .*"),
        ("slow", r"'clerk' waits for a result, '[\w-]+': weather\(.* input; .*"),
        ("keyed", r"'clerk' waits for a credential, '[\w-]+': API key 'X-Key'\? .* input; .*"),
    ],
)
def test_an_answer_that_is_not_given_fails(cli: Cli, name: str, said: str) -> None:
    """Without anyone to answer, the run ends with one line and exit code 1: the ids, and how to go on."""
    done = cli("run", f"{PIPELINES}:{name}", "Hi")
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(f"adk-fluent: {said}\n", done.err)
    assert "Answer each with a line on standard input" in done.err
    (result,) = results(cli("run", f"{PIPELINES}:{name}", "Hi", "--json").out)
    assert (result["text"], len(result["pending"])) == ("", 1)


def test_a_stored_run_is_answered_later(cli: Cli) -> None:
    """One by one, by id; an id that does not wait, or waits no more, is one line with those that do."""
    kept = ["run", f"{PIPELINES}:mixed", "--session-db", "kept.db", "--session", "s"]
    first = cli(*kept, "Hi")
    assert "Go on with --session-db kept.db --session s --answer ID=VALUE (y or yes approves)." in first.err
    ids = re.findall(r", '([\w-]+)': ", first.err)
    result, gate = sorted(ids, key=lambda id: id.startswith("gate"))
    unknown = cli(*kept, "--answer", "x=1")
    assert unknown.code == 1
    assert unknown.err.startswith("adk-fluent: Session 's' does not wait for 'x'; it waits for ")
    assert result in unknown.err
    assert gate in unknown.err
    second = cli(*kept, "--answer", f"{gate}=y")
    assert (second.code, re.findall(r", '([\w-]+)': ", second.err)) == (1, [result])
    again = cli(*kept, "--answer", f"{gate}=y")
    assert again.err == f"adk-fluent: Session 's' does not wait for '{gate}'; it waits for '{result}'.\n"
    asked = cli(*kept, stdin="sunny\n")
    assert (asked.code, asked.out.strip()) == (0, "It is {'result': 'sunny'}.")
    late = cli(*kept, "--answer", f"{result}=sunny")
    assert late.err == f"adk-fluent: Session 's' does not wait for '{result}'; it waits for nothing.\n"


def test_an_answer_needs_a_stored_session(cli: Cli) -> None:
    """Without one, and with a PROMPT, it is wrong usage."""
    for given in (
        ["--answer", "x=1"],
        ["Hi", "--session-db", "kept.db", "--session", "s", "--answer", "x=1"],
    ):
        done = cli("run", PIPELINES, *given)
        assert (done.code, "--answer goes on with a stored run" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("failing", "Agent 'broken' got no answer from its model 'says': ValueError: the line is dead."),
        ("half", "Agent 'half' got no answer from its model 'says': ValueError: the line is dead."),
        ("blocked", "model error in agent 'blocked': SAFETY: blocked"),
        ("broken_tools", "Agent 'clerk': its tool 'weather' raised LookupError: no weather in Rome."),
        ("needy", "needy reads {nothing_writes_this} in instruction and never finds it"),
    ],
)
def test_a_failed_run_gives_one_line(cli: Cli, name: str, line: str) -> None:
    """A model or tool that fails, or a key that is missing, gives one line naming the agent; exit code 1."""
    done = cli("run", f"{PIPELINES}:{name}", "Hi")
    assert done.code == 1
    assert done.err.startswith(f"adk-fluent: {line}")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize("name", ["rescued", "saved"])
def test_a_failure_that_a_fallback_caught_is_none(cli: Cli, name: str) -> None:
    """A failed branch of a fallback is shown, and the run is fine."""
    done = cli("run", f"{PIPELINES}:{name}", "Hi", "-v")
    assert (done.code, done.err) == (0, "")
    assert "failed, the next one takes over" in done.out
    assert "  Hello from the writer." in done.out


def test_debug_raises_what_happened(cli: Cli) -> None:
    """With `--debug` the model's own error is in the traceback."""
    with pytest.raises(Exception, match="the line is dead") as caught:
        cli("run", f"{PIPELINES}:half", "Hi", "--debug")
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((PIPELINES, " "), "adk-fluent: PROMPT is empty; leave it out to chat.\n"),
        (
            (PIPELINES, "Hi", "--session-db", "no/such/kept.db"),
            "adk-fluent: There is no folder for the session file 'no/such/kept.db'.\n",
        ),
        ((), "the following arguments are required: TARGET"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[object, ...], line: str) -> None:
    """Arguments that make no sense are refused with exit code 2."""
    done = cli("run", *arguments)
    assert done.code == 2
    assert line in done.err


def test_a_session_file_that_is_none_is_refused(cli: Cli, tmp_path: Path) -> None:
    """One line says so before anything runs, and the file stays as it was."""
    (tmp_path / "kept.db").write_text("My notes.")
    done = cli("run", f"{PIPELINES}:half", "Hi", "--session-db", "kept.db")
    assert (done.code, done.out) == (1, "")
    assert done.err == "adk-fluent: The session file 'kept.db' cannot be used: file is not a database.\n"
    assert (tmp_path / "kept.db").read_text() == "My notes."


def test_half_an_answer_is_not_stored(cli: Cli, tmp_path: Path) -> None:
    """What a stream gave before it broke is neither an event of the session nor in its state."""
    done = cli("run", f"{PIPELINES}:half", "Hi", "-v", "--session-db", "kept.db", "--session", "s")
    assert "This is only the beg" in done.out
    assert stored(tmp_path / "kept.db", "s") == [("user", "Hi")]
    assert state(tmp_path / "kept.db", "s") == {}


def test_ctrl_c_leaves_the_session_whole(cli: Cli, tmp_path: Path) -> None:
    """Ctrl-C in the middle of an answer: one line, exit code 130, and the session goes on afterwards."""
    place = ["--session-db", str(tmp_path / "kept.db"), "--session", "s"]
    command = [sys.executable, "-m", "adk_fluent", "run", f"{PIPELINES}:endless", "Hi", "-v", *place]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert running.stdout is not None
    out = running.stdout.fileno()

    def read_until_still() -> None:
        seen = b""
        while b"Still" not in seen and (piece := os.read(out, 1000)):
            seen += piece

    in_time(read_until_still)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=LIMIT)
    assert (running.returncode, error) == (130, b"adk-fluent: interrupted\n")
    done = cli("run", PIPELINES, "Again", *place)
    assert done.code == 0
    assert stored(tmp_path / "kept.db", "s") == [
        ("user", "Hi"),
        ("user", "Again"),
        ("writer", "Hello from the writer."),
        ("editor", "Hello."),
    ]


def test_gemini_text_that_breaks_off_is_not_stored(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection to Gemini that tears in the middle of an answer fails the run and stores nothing of it."""
    (tmp_path / "cloud.py").write_text(
        "from adk_fluent import Agent\npipeline = Agent('writer', 'gemini-2.5-flash').writes('draft')\n"
    )
    torn = Gemini({"writer": "A long answer that stops in the middle."}, {"writer": "break"})
    with serve_models(torn, monkeypatch):
        done = cli("run", "cloud.py", "Hi", "-v", "--session-db", "kept.db", "--session", "s")
    assert done.code == 1
    assert "A long answer" in done.out
    assert done.err.startswith("adk-fluent: Agent 'writer' got no answer from its model ")
    assert stored(tmp_path / "kept.db", "s", app="cloud") == [("user", "Hi")]
    assert state(tmp_path / "kept.db", "s", app="cloud") == {}


def test_a_workflow_runs(cli: Cli, tmp_path: Path) -> None:
    """ADK's own `Workflow`, as `build(target="workflow")` gives it, runs like the rest."""
    (tmp_path / "flow.py").write_text(
        "from tests.cli.targets.pipelines import pipeline\nroot_agent = pipeline.build(target='workflow')\n"
    )
    done = cli("run", "flow.py:root_agent", "Hi", "-v")
    assert (done.code, done.err) == (0, "")
    assert "  Hello from the writer." in done.out.splitlines()
    assert "  Hello." in done.out.splitlines()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("failing", "Agent 'broken' got no answer from its model 'says': ValueError: the line is dead."),
        ("broken_tools", "Agent 'clerk': its tool 'weather' raised LookupError: no weather in Rome."),
    ],
)
def test_a_workflow_that_fails_gives_the_same_line(cli: Cli, tmp_path: Path, name: str, line: str) -> None:
    """On ADK's own `Workflow` a failure is named as on the default target."""
    (tmp_path / "flow.py").write_text(
        f"from tests.cli.targets.pipelines import {name}\nroot_agent = {name}.build(target='workflow')\n"
    )
    done = cli("run", "flow.py:root_agent", "Hi")
    assert (done.code, done.err) == (1, f"adk-fluent: {line}\n")


def test_json_tells_of_tools_word_for_word(cli: Cli) -> None:
    """With --json a call has the tool's name, arguments and id, and its result the same name and id."""
    done = cli("run", f"{PIPELINES}:tools", "Weather?", "--json")
    *events, _ = [json.loads(line) for line in done.out.splitlines()]
    (call,) = [call for event in events for call in event["tool_calls"]]
    (result,) = [result for event in events for result in event["tool_results"]]
    assert call == {"name": "weather", "args": {"city": "Rome"}, "id": call["id"]}
    assert result == {"name": "weather", "result": {"result": "sunny"}, "id": call["id"]}
    assert {event["author"] for event in events} == {"clerk"}


def test_a_chat_shows_what_a_run_shows(cli: Cli) -> None:
    """With -v each turn tells of the agents that speak to others."""
    assert cli("run", PIPELINES, "-v", stdin="one\ntwo\n\n").out.count("● writer  internal") == 2


def test_answers_come_in_pieces(cli: Cli) -> None:
    """A model is asked to stream, so that --json and -v show words as they come."""
    *events, _ = [json.loads(line) for line in cli("run", PIPELINES, "Hi", "--json").out.splitlines()]
    assert [event["text"] for event in events if event["partial"]][:2] == ["Hello ", "from "]


def test_a_run_without_a_session_file_writes_none(cli: Cli, tmp_path: Path) -> None:
    """What is run once leaves nothing behind."""
    assert cli("run", PIPELINES, "Hi").code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_strict_target_is_checked_with_the_state_it_starts_from(cli: Cli) -> None:
    """A key that nothing writes is refused, unless --state gives it, or the session may have it."""
    strict = f"{PIPELINES}:strict"
    refused = cli("run", strict, "Hi")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("adk-fluent: ✗ needy reads {nothing_writes_this} in instruction: ERROR ")
    key = ("--state", "nothing_writes_this=hammer")
    place = ("--session-db", "kept.db", "--session", "s")
    assert cli("run", strict, "Hi", *key, *place).out == "Hm.\n"
    assert cli("run", strict, "Again", *place).out == "Hm.\n"


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("typed", "'no letter', which is not a Letter: it is not JSON: expected ident at line 1 column 2"),
        ("hastily_typed", "{}, which is not a Letter: text is missing"),
    ],
)
def test_an_answer_of_another_shape_is_told(target: str, wrong: str, cli: Cli) -> None:
    """Of an agent that ADK itself keeps to a schema, the line says what the answer is not, and why."""
    done = cli("run", f"{PIPELINES}:{target}", "Hi")
    assert (done.code, done.err) == (1, f"adk-fluent: 'typed' answered {wrong}.\n")


@pytest.mark.parametrize("name", ["user.py", "my-agent.py"])
def test_a_file_may_have_any_name(cli: Cli, tmp_path: Path, name: str) -> None:
    """A name that ADK keeps for itself, or that Python could not import, is no hindrance."""
    (tmp_path / name).write_text("from adk_fluent import S\npipeline = S.set(k=1)\n")
    assert cli("run", name, "Hi").code == 0
