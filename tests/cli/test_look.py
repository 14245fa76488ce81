"""`adk-fluent check`, `explain` and `preview`: what they print and the codes they end with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import PIPELINES, Cli

FAULTY = """
from adk_fluent import Agent
root_agent = (Agent("a").writes("summery") >> Agent("b").instruct("Present {summary}.")).build()
"""
COMMANDS = [("check",), ("explain",), ("preview", "hi")]


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """A file whose pipeline reads a misspelt key."""
    path = tmp_path / "faulty.py"
    path.write_text(FAULTY)
    return path


@pytest.mark.parametrize("name", ["pipeline", "built"])
def test_check_says_what_is_found(cli: Cli, name: str) -> None:
    """An expression, and what was built of it, get the same findings and a count; notes are no failure."""
    done = cli("check", f"{PIPELINES}:{name}")
    assert (done.code, done.err) == (0, "")
    first, *_, last = done.out.splitlines()
    assert first == '⚠ editor has C.default() with predecessor writer.outputs("draft"): INFO'
    assert last == "1 note; 1 promise holds."


def test_check_fails_for_errors(cli: Cli, faulty: Path) -> None:
    """An error makes the exit code 1."""
    done = cli("check", faulty)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("✗ b reads {summary} in instruction: ERROR\n")
    assert "1 error" in done.out.splitlines()[-1]


def test_check_knows_the_state_before(cli: Cli, faulty: Path) -> None:
    """A key that --state gives is there."""
    done = cli("check", faulty, "--state", "summary=short")
    assert (done.code, done.err) == (0, "")


def test_check_can_be_strict(cli: Cli) -> None:
    """With --strict a note is an error."""
    assert cli("check", PIPELINES, "--strict").code == 1


def test_check_gives_json(cli: Cli, faulty: Path) -> None:
    """--json prints the whole report in its stable layout, with the same exit code."""
    done = cli("check", faulty, "--json")
    report = json.loads(done.out)
    assert (done.code, report["version"], report["ok"]) == (1, 1, False)
    issue = report["issues"][0]
    assert (issue["code"], issue["agent"], issue["key"]) == ("unresolved-template-var", "b", "summary")


@pytest.mark.parametrize("name", ["pipeline", "built"])
def test_explain_prints_the_picture(cli: Cli, name: str) -> None:
    """The outline and every agent are printed."""
    done = cli("explain", f"{PIPELINES}:{name}")
    assert (done.code, done.err) == (0, "")
    assert "  writer (agent) → draft\n  editor (agent) draft →\n" in done.out
    assert '  instruction:  "Shorten: {draft}"\n' in done.out


def test_explain_gives_json(cli: Cli) -> None:
    """--json prints the same as data."""
    agents = json.loads(cli("explain", PIPELINES, "--json").out)["agents"]
    assert [agent["anatomy"]["sees"] for agent in agents] == [["user"], ["user", "writer"]]


PRICED = """
from adk_fluent import Agent, Route
a = Agent("a", "house").writes("k")
pipeline = a >> Route("k").eq("x", Agent("b", "house")).otherwise(Agent("c", "house"))
"""


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """A file whose models only the command line gives prices."""
    path = tmp_path / "priced.py"
    path.write_text(PRICED)
    return path


def test_estimate_prints_the_table(cli: Cli, priced: Path) -> None:
    """Options say how the pipeline is used and what its models cost; the table and the assumptions follow."""
    done = cli("estimate", priced, "--price", "house=1,4", "--invocations", "2000", "--branch", "x=0.9")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("agent  model  calls")
    assert "- 2,000 invocations a day, of 500 tokens" in done.out
    assert "- route: b 90%, c 10%" in done.out


def test_estimate_gives_json(cli: Cli, priced: Path) -> None:
    """--json prints all of it, and every option counts."""
    plain = json.loads(cli("estimate", priced, "--price", "house=1,4", "--json").out)
    assert (plain["version"], plain["invocations_per_day"], len(plain["agents"])) == (1, 1000, 3)
    for option, value in (
        ("--input-tokens", 9000),
        ("--output-tokens", 900),
        ("--turns", 5),
        ("--invocations", 1001),
    ):
        more = json.loads(cli("estimate", priced, "--price", "house=1,4", option, value, "--json").out)
        assert more["total_estimated"] > plain["total_estimated"]


def test_what_adk_alone_made_is_estimated(cli: Cli) -> None:
    """An agent made with ADK alone is estimated like any other."""
    done = cli("estimate", f"{PIPELINES}:native", "--price", "says=1,4")
    assert (done.code, done.err) == (0, "")
    assert "native" in done.out


REPEATED = """
from adk_fluent import Agent, map_over, until
pipeline = Agent("w", "house") * until(lambda s: s["done"], max=9) >> map_over("xs", Agent("m", "house"))
"""


def test_estimate_counts_rounds_and_items(cli: Cli, tmp_path: Path) -> None:
    """--rounds and --items say how often what repeats runs."""
    path = tmp_path / "repeated.py"
    path.write_text(REPEATED)
    given = ("estimate", path, "--price", "house=1,4", "--json")

    def calls(*options: object) -> dict[str, float]:
        agents = json.loads(cli(*given, *options).out)["agents"]
        return {each["agent"]: each["calls"] for each in agents}

    assert calls() == {"w": 2, "m": 3}
    assert calls("--rounds", 5, "--items", 7) == {"w": 5, "m": 7}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 1, "the price of model 'house' is unknown"),
        (
            ("--price", "house=cheap"),
            2,
            "--price takes MODEL=IN,OUT in USD per million",
        ),
        (("--price", "house=1,4", "--branch", "y=1"), 1, "names 'y', and there is no such branch"),
        (("--price", "house=1,4", "--branch", "x=2"), 2, "takes a number from 0 to 1, not 2"),
        (("--price", "house=1,4", "--branch", "x"), 2, "adk-fluent: --branch takes NAME=VALUE, not 'x'."),
        (("--price", "house=1,4,5"), 2, "adk-fluent: --price takes MODEL=IN,OUT in USD per million"),
        (("--price", "house"), 2, "adk-fluent: --price takes NAME=VALUE, not 'house'."),
        (("--price", "house=1,4", "--invocations", "-1"), 2, "takes a number from 0 up, not -1"),
    ],
)
def test_estimate_says_what_is_wrong(
    cli: Cli, priced: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    """What cannot be estimated is one line; wrong usage has its own exit code."""
    done = cli("estimate", priced, *options)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["pipeline", "built"])
def test_preview_prints_the_requests(cli: Cli, name: str) -> None:
    """Every request is printed, with an answer made up where an earlier agent's is needed."""
    done = cli("preview", f"{PIPELINES}:{name}", "A poem, please")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1. writer (says)\n  system: ")
    assert "\n  user: A poem, please\n" in done.out
    assert "\n2. editor (says)\n  system: Shorten: (what writer answers)\n" in done.out


def test_preview_takes_answers_and_state(cli: Cli, faulty: Path) -> None:
    """What --answer and --state give is what the requests hold; a later agent sees the answer."""
    done = cli("preview", faulty, "hi", "--state", "summary=[1, 2]", "--answer", "a=Once = upon a time")
    assert (done.code, done.err) == (0, "")
    assert "Present [1, 2]." in done.out
    assert "Once = upon a time" in done.out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--state", "summary"), "--state takes NAME=VALUE, not 'summary'."),
        (("--answer", "=yes"), "--answer takes NAME=VALUE, not '=yes'."),
    ],
)
def test_a_value_without_a_name(cli: Cli, faulty: Path, given: tuple[str, str], message: str) -> None:
    """What is no NAME=VALUE is wrong usage."""
    done = cli("preview", faulty, "hi", *given)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_preview_gives_json(cli: Cli) -> None:
    """--json prints the requests as data, in call order."""
    calls = json.loads(cli("preview", PIPELINES, "hi", "--json").out)["calls"]
    assert [call["agent"] for call in calls] == ["writer", "editor"]


def test_preview_of_a_run_that_fails(cli: Cli, faulty: Path) -> None:
    """A run that would fail is told in one line, with exit code 1."""
    done = cli("preview", faulty, "hi")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("adk-fluent: Agent 'b' needs state key 'summary'")


@pytest.mark.parametrize(("command", "rest"), [(command, rest) for command, *rest in COMMANDS])
def test_an_agent_of_adk_alone(cli: Cli, command: str, rest: list[str]) -> None:
    """An agent that was made with ADK alone is looked at like any other."""
    done = cli(command, f"{PIPELINES}:team", *rest)
    assert (done.code, done.err) == (0, "")
    assert command == "check" or "lead" in done.out


@pytest.mark.parametrize(("command", "rest"), [(command, rest) for command, *rest in COMMANDS])
def test_a_target_that_is_not_there(cli: Cli, command: str, rest: list[str]) -> None:
    """A TARGET that cannot be loaded is wrong usage."""
    done = cli(command, "nothing.py", *rest)
    assert (done.code, done.out) == (2, "")
    assert "There is no file 'nothing.py'" in done.err


def test_an_empty_prompt(cli: Cli) -> None:
    """An empty PROMPT is wrong usage."""
    assert cli("preview", PIPELINES, " ").code == 2


PLACES = """from adk_fluent import Agent, Loop, Route, gate

first = Agent("a").instruct("One {one}.")
second = Agent("a").instruct("Two {two}.")
asked = gate(
    lambda s: s["big"],
    message="Pay {money}?",
)
chosen = Route("nobody").eq("x", Agent("x"))
again = Route("nothing").eq("y", Agent("y"))
loop = Loop(Agent("z"), max_iterations=2).until(lambda s: s.get("q"))
pipeline = second >> first >> again >> chosen >> asked >> loop
"""


def test_each_finding_names_its_own_line(cli: Cli, tmp_path: Path) -> None:
    """Agents of one name are told apart by their texts; routes, loops and gates need no name."""
    (tmp_path / "places.py").write_text(PLACES)
    found = json.loads(cli("check", "places.py", "--json").out)["issues"]
    lines = {(one["code"], one["key"]): one["line"] for one in found}
    assert lines["unresolved-template-var", "one"] == 3
    assert lines["unresolved-template-var", "two"] == 4
    assert lines["unresolved-template-var", "money"] == 5
    assert lines["route-missing-key", "nobody"] == 9
    assert lines["route-missing-key", "nothing"] == 10
    assert lines["loop-runs-to-limit", "q"] == 11


STEPS = """from adk_fluent import A, Agent, S, tap
from adk_fluent import S as State

def shorten(s):
    return {"text": s["shortened"]}

later = S.compute(n=lambda s: s["later"])
pipeline = (
    Agent("a", "m").instruct("Hi.").writes("text")
    >> S.compute(
        n=lambda s: s["earlier"]
    )
    >> later
    >> S.transform("changed", str.upper)
    >> (lambda s: {"text": s["in_lambda"]})
    >> State.require("name")
    >> (S.set(x="name") + S.rename(joined="z"))
    >> S.require("needed")
    >> tap(lambda s: print(s["tapped"]))
    >> tap(shorten)
    >> shorten
    >> A.publish("r.txt", "published")
    >> Agent("name", "m").instruct("{text} {n} {x} {missing}")
)
"""


def test_each_step_without_a_name_has_its_own_line(cli: Cli, tmp_path: Path) -> None:
    """An operation of S or A is where it is called; a plain function is where it starts."""
    (tmp_path / "unnamed.py").write_text(STEPS)
    found = json.loads(cli("check", "unnamed.py", "--json").out)["issues"]
    lines = {one["key"]: one["line"] for one in found if one["severity"] != "info"}
    expected = {"later": 7, "earlier": 10, "changed": 14, "in_lambda": 15, "name": 16, "joined": 17}
    expected |= {"needed": 18, "tapped": 19, "published": 22, "missing": 23}
    assert {key: lines.get(key) for key in expected} == expected
    assert {one["line"] for one in found if one["key"] == "shortened"} == {4}


NATIVE = """import functools
from google.adk.workflow import Workflow

def first(node_input, times):
    return "done"

def second(ctx, node_input):
    return ctx.state["nowhere"]

root_agent = Workflow(name="flow", edges=[("START", functools.partial(first, times=2), second)])
"""


@pytest.mark.newest
def test_a_function_in_a_workflow_of_adk_has_its_line(cli: Cli, tmp_path: Path) -> None:
    """A node that is a plain function is where the function starts."""
    (tmp_path / "native.py").write_text(NATIVE)
    found = json.loads(cli("check", "native.py", "--json").out)["issues"]
    assert [one["line"] for one in found if one["key"] == "nowhere"] == [7]
