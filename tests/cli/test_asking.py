"""What `adk-fluent run` asks a person, word for word: chats and approvals on a terminal and beside a pipe."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from adk_fluent.cli import main
from tests.cli.commands import ANSI, PIPELINES, Cli


class Stream(io.StringIO):
    """A standard stream that is a terminal, or is none."""

    def __init__(self, text: str = "", terminal: bool = True) -> None:
        super().__init__(text)
        self._terminal = terminal

    def isatty(self) -> bool:
        """Whether it is."""
        return self._terminal


@dataclass
class Seen:
    """What a person sees, and what a program that reads the output gets."""

    code: int
    out: str
    err: str


@dataclass
class Person:
    """Somebody at a terminal."""

    patch: pytest.MonkeyPatch

    def __call__(self, *arguments: object, typed: str = "", piped: bool = False, fed: bool = False) -> Seen:
        """Run the command.

        Args:
            typed: what is typed; then the input ends.
            piped: whether the output goes to a program.
            fed: whether the input comes from a program.
        """
        out, err = Stream(terminal=not piped), Stream()
        with self.patch.context() as streams:
            streams.setattr(sys, "stdin", Stream(typed, terminal=not fed))
            streams.setattr(sys, "stdout", out)
            streams.setattr(sys, "stderr", err)
            code = main(["run", *map(str, arguments)])
        return Seen(code, _plain(out), _plain(err))


def _plain(stream: Stream) -> str:
    return re.sub(r"\d+\.\d s", "N s", ANSI.sub("", stream.getvalue()))


@pytest.fixture
def person(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Person:
    """A person whose terminal knows no colours; starts in an empty folder."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    return Person(monkeypatch)


WRITER = "○ writer   → draft   7 tokens   N s\n"
EDITOR = "● editor\n  Hello.\n  7 tokens   N s\n"
ASKED = f"{WRITER}■ gate asks: Send it?\nOnly y or yes approves: "
APPROVED = f"{ASKED}\n{EDITOR}"
REFUSED = f"{ASKED}\n● gate\n  Not approved: Send it?\n  N s\n"


@pytest.mark.parametrize(
    ("typed", "shown"), [("y\n", APPROVED), ("YES\n", APPROVED), ("\n", REFUSED), ("no\n", REFUSED)]
)
def test_a_gate_on_a_terminal(person: Person, typed: str, shown: str) -> None:
    """The question, what approves, and what came of the answer; nothing else is on the screen."""
    assert person(f"{PIPELINES}:gated", "Hi", typed=typed) == Seen(0, shown, "")


def test_the_end_of_the_input_refuses(person: Person) -> None:
    """Ctrl-D at the question ends its line and approves nothing."""
    shown = REFUSED.replace("approves: \n", "approves: \n\n", 1)
    assert person(f"{PIPELINES}:gated", "Hi") == Seen(0, shown, "")


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("gated", "gate asks: Send it?", "Hello."),
        ("careful", 'clerk asks: Run weather(city="Rome")?', "It is {'result': 'sunny'}."),
    ],
)
def test_a_question_beside_a_pipe(person: Person, name: str, question: str, answer: str) -> None:
    """The person is asked on the error output, once and with what approves; the program gets the answer."""
    seen = person(f"{PIPELINES}:{name}", "Hi", typed="y\n", piped=True)
    assert seen == Seen(0, f"{answer}\n", f"{question} (only y or yes approves)\n")


def test_a_question_that_a_program_answers(person: Person) -> None:
    """Where both ends are programs, nothing but the answer is written."""
    seen = person(f"{PIPELINES}:gated", "Hi", typed="y\n", piped=True, fed=True)
    assert seen == Seen(0, "Hello.\n", "")


def test_an_answer_from_a_program_is_not_prompted_for(person: Person) -> None:
    """A terminal shows the question, and no prompt where nobody types there."""
    seen = person(f"{PIPELINES}:gated", "Hi", typed="y\n", fed=True)
    assert seen == Seen(0, APPROVED.replace("Only y or yes approves: ", ""), "")


def test_json_on_a_terminal_is_json_alone(person: Person) -> None:
    """With --json neither question nor prompt stands between the objects; y still approves."""
    seen = person(f"{PIPELINES}:gated", "Hi", "--json", typed="y\n")
    assert (seen.code, seen.err) == (0, "")
    *events, result = [json.loads(line) for line in seen.out.splitlines()]
    asked = [pending for event in events for pending in event["pending"]]
    form = "True, False or a payload that approves"
    told = {"agent": "gate", "kind": "approval", "message": "Send it?", "form": form}
    assert asked == [{"id": asked[0]["id"], **told, "payload": {}}]
    assert (result["text"], result["pending"]) == ("Hello.", [])


TICKET = (
    '■ clerk asks: weather(city="Rome") runs outside of this process. What is its result?\n'
    "  Give what the tool gave: text, or anything else that is JSON; an empty line leaves it open.\n"
)


@pytest.mark.parametrize(
    ("typed", "given"),
    [("sunny", {"result": "sunny"}), ('{"sky": "blue"}', {"sky": "blue"}), ("7", {"result": 7})],
)
def test_a_result_on_a_terminal(person: Person, typed: str, given: object) -> None:
    """The question says the call and the form of the answer; the run goes on with what is typed."""
    seen = person(f"{PIPELINES}:slow", "Hi", typed=f"{typed}\n")
    assert seen == Seen(0, f"{TICKET}answer › ● clerk\n  It is {given}.\n  7 tokens   N s\n", "")


def test_a_question_left_open(person: Person) -> None:
    """An empty line leaves a result open: a single turn ends with the id, and a chat goes on."""
    seen = person(f"{PIPELINES}:slow", "Hi", typed="\n")
    assert (seen.code, seen.out) == (1, f"{TICKET}answer › ")
    assert re.search(r"'clerk' waits for a result, '[\w-]+': weather\(.*What is its result\? ", seen.err)
    chat = person(f"{PIPELINES}:slow", typed="Hi\n\n")
    assert (chat.code, chat.out.count("you › ")) == (0, 2)
    assert "'clerk' waits for a result" in chat.out


def test_a_credential_is_not_shown(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is read as a password is, and stays text; after another form the question comes again."""
    asked, typed = list[str](), ['{"no": "key"}', "123"]

    def hidden(prompt: str) -> str:
        asked.append(prompt)
        return typed.pop(0)

    monkeypatch.setattr("adk_fluent.cli.run.getpass", hidden)
    seen = person(f"{PIPELINES}:keyed", "Hi")
    assert seen.code == 0
    assert asked == ["answer › "] * 2
    assert seen.out.count("■ clerk asks: API key 'X-Key'?") == 2
    assert "It is {'result': 'opened with 123'}." in seen.out
    assert re.search("The answer to '.*' is no credential: .* Give the key, the token", seen.err)


def test_several_questions_of_several_kinds(person: Person) -> None:
    """Each is asked once, in order; one that is left open is told at the end, the other one goes on."""
    seen = person(f"{PIPELINES}:mixed", "Hi", typed="\ny\n")
    assert seen.code == 1
    assert [line for line in seen.out.splitlines() if " asks: " in line] == [
        TICKET.splitlines()[0],
        "answer › ■ gate asks: Send it?",
    ]
    assert "● sender\n  Sent." in seen.out
    assert "'clerk' waits for a result" in seen.err
    assert "gate" not in seen.err


def test_a_chat_on_a_terminal(person: Person) -> None:
    """Each turn has its prompt, its steps and an empty line; an empty line, or Ctrl-D, ends the chat."""
    turn = f"you › {WRITER}\n{EDITOR}\n"
    assert person(PIPELINES, typed="one\ntwo\n\nthree\n") == Seen(0, f"{turn}{turn}you › ", "")
    assert person(PIPELINES, typed="one\n") == Seen(0, f"{turn}you › \n", "")


def test_a_chat_in_json_has_no_prompt(person: Person) -> None:
    """With --json a chat at a terminal writes objects alone."""
    seen = person(PIPELINES, "--json", typed="one\ntwo\n")
    assert {json.loads(line)["type"] for line in seen.out.splitlines()} == {"event", "result"}


def test_a_failed_turn_does_not_end_a_chat(person: Person) -> None:
    """At a terminal the failure is told and the next turn comes; from a program it ends the run."""
    line = "Agent 'broken' got no answer from its model 'says': ValueError: the line is dead."
    turn = f"you › {WRITER}{line}\n"
    assert person(f"{PIPELINES}:failing", typed="one\ntwo\n") == Seen(0, f"{turn}{turn}you › \n", "")
    fed = person(f"{PIPELINES}:failing", typed="one\ntwo\n", fed=True)
    assert fed == Seen(1, WRITER, f"adk-fluent: {line}\n")


def test_what_steps_and_tools_print_is_no_answer(person: Person, tmp_path: Path) -> None:
    """It goes to the error output, in the first turn and when the run goes on after a question."""
    (tmp_path / "loud.py").write_text(
        "from adk_fluent import S, gate\n"
        "def before(state):\n    print('before')\n"
        "def after(state):\n    print('after')\n"
        "pipeline = S.fn(before) >> gate(lambda state: True, message='Go on?') >> S.fn(after)\n"
    )
    seen = person("loud.py", "Hi", typed="y\n", piped=True)
    assert seen == Seen(0, "", "before\ngate asks: Go on? (only y or yes approves)\nafter\n")
