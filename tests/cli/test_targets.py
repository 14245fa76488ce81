"""TARGET: what is found, and what is said when it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adk_fluent.cli.target import load
from tests.cli.commands import PIPELINES, Cli

pytestmark = pytest.mark.newest  # the same on every release

EXPRESSION = "from adk_fluent import Agent\n{name} = Agent('{agent}')\n"
CHATTY = """
from adk_fluent import S, tap
print("on import")

def step(state):
    print("in a step")
    return {"x": 1}

pipeline = S.fn(step) >> tap(lambda state: print("in a tap"))
"""
NATIVE = "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='{agent}')\n"


def write(path: Path, text: str) -> Path:
    """A file with this text, its folders made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["pipeline", "app", "root_agent"])
def test_a_file_needs_no_attribute_for_the_usual_names(cli: Cli, tmp_path: Path, name: str) -> None:
    """A file without `:attr` gives its `pipeline`, `app` or `root_agent`."""
    write(tmp_path / "some.py", EXPRESSION.format(name=name, agent="me") + "other = Agent('not_me')\n")
    assert 'me("me' in cli("viz", "some.py").out


def test_pipeline_comes_before_app_and_root_agent(cli: Cli, tmp_path: Path) -> None:
    """Where a file has several of the usual names, `pipeline` wins, then `app`."""
    text = "".join(EXPRESSION.format(name=n, agent=n) for n in ("root_agent", "app", "pipeline"))
    write(tmp_path / "some.py", text)
    assert 'pipeline("pipeline' in cli("viz", "some.py").out


def test_the_only_expression_of_a_file_is_found(cli: Cli, tmp_path: Path) -> None:
    """A file with one expression under any name needs no `:attr`."""
    write(tmp_path / "some.py", EXPRESSION.format(name="whatever", agent="me"))
    assert 'me("me' in cli("viz", "some.py").out


def test_several_expressions_ask_for_a_name(cli: Cli, tmp_path: Path) -> None:
    """Two expressions under unusual names give a line that lists them, and exit code 2."""
    write(tmp_path / "some.py", "from adk_fluent import Agent\none = Agent('a')\ntwo = Agent('b')\n")
    done = cli("viz", "some.py")
    assert (done.code, done.err) == (2, "adk-fluent: some.py holds one, two; say which one: some.py:one\n")


def test_an_attribute_of_a_file_and_of_a_module(cli: Cli, tmp_path: Path) -> None:
    """`file.py:attr` and `module:attr` name the same thing, dotted attributes included."""
    write(
        tmp_path / "some_flow.py", EXPRESSION.format(name="one", agent="me") + "class Box:\n    inner = one\n"
    )
    pictures = [cli("viz", t).out for t in ("some_flow.py:one", "some_flow:one", "some_flow:Box.inner")]
    assert 'me("me' in pictures[0]
    assert pictures[0] == pictures[1] == pictures[2]


def test_a_file_may_import_its_neighbours(cli: Cli, tmp_path: Path) -> None:
    """A file that imports the module beside it loads from any working folder."""
    write(tmp_path / "deep" / "neighbour_of_some.py", EXPRESSION.format(name="it", agent="me"))
    write(tmp_path / "deep" / "some.py", "from neighbour_of_some import it as pipeline\n")
    assert 'me("me' in cli("viz", "deep/some.py").out


FOUND = [
    ("flow_one.py", "first", "flow_one", None),
    ("flow_one.py:second", "second", "flow_one", None),
    ("flow_one", "first", "flow_one", None),
    ("flow_one:second", "second", "flow_one", None),
    ("flow_one:Box.inner", "second", "flow_one", None),
    ("some_pack.sub:second", "second", "sub", None),
    ("some_pack.sub", "first", "sub", None),
    ("my-flow.py", "first", "my-flow", None),
    ("bots/pipe_bot", "first", "pipe_bot", "bots/pipe_bot"),
    ("bots/pipe_bot:second", "second", "pipe_bot", "bots/pipe_bot"),
    ("bots/both_bot:second", "second", "both_bot", "bots/both_bot"),
]
FLOW = """\
from __future__ import annotations
from dataclasses import dataclass
from adk_fluent import Agent

@dataclass
class Kept:  # dataclasses look their module up
    x: int = 1

pipeline, second = Agent("first"), Agent("second")

class Box:
    inner = second
"""


@pytest.mark.usefixtures("cli")  # it forgets what was imported
@pytest.mark.parametrize(("text", "agent", "app", "folder"), FOUND)
def test_what_a_target_is_called(tmp_path: Path, text: str, agent: str, app: str, folder: str | None) -> None:
    """Every way to name a target finds the value, the name of its app, and the folder if it is one."""
    for place in (
        "flow_one.py",
        "my-flow.py",
        "some_pack/sub.py",
        "bots/pipe_bot/agent.py",
        "bots/both_bot/agent.py",
    ):
        write(tmp_path / place, FLOW)
    write(tmp_path / "some_pack" / "__init__.py", EXPRESSION.format(name="outer", agent="outer"))
    write(tmp_path / "bots" / "pipe_bot" / "__init__.py", "")
    write(tmp_path / "bots" / "both_bot" / "__init__.py", EXPRESSION.format(name="root_agent", agent="root"))
    found = load(text)
    native: Any = found.value
    name = native.name if found.expression is None else found.expression.node.name
    assert (name, found.app_name) == (agent, app)
    assert found.folder == (None if folder is None else tmp_path / folder)


@pytest.mark.parametrize("home", ["agent.py", "__init__.py"])
def test_an_agent_folder(cli: Cli, tmp_path: Path, home: str) -> None:
    """A folder with `root_agent` in `agent.py` or `__init__.py` is found as `adk web` finds it."""
    write(tmp_path / "bots" / "folder_bot" / "__init__.py", "")
    write(tmp_path / "bots" / "folder_bot" / home, NATIVE.format(agent="me"))
    assert 'me("me' in cli("viz", "bots/folder_bot").out


@pytest.mark.parametrize("target", ["bots/my-bot", "bots/2nd bot"])
def test_an_agent_folder_whose_name_is_no_identifier(cli: Cli, tmp_path: Path, target: str) -> None:
    """A folder that older releases of ADK load is read, with the files that it imports from beside it."""
    write(tmp_path / target / "__init__.py", "from . import agent\n")
    write(tmp_path / target / "texts.py", "TEXT = 'Use {missing}.'\n")
    agent = "LlmAgent(name='me', model='gemini-2.5-flash', instruction=TEXT)"
    imports = "from google.adk.agents import LlmAgent\nfrom .texts import TEXT\n"
    write(tmp_path / target / "agent.py", f"{imports}root_agent = {agent}\n")
    assert "✗ me reads {missing} in instruction: ERROR" in cli("check", target).out


def test_an_agent_folder_prefers_its_app(cli: Cli, tmp_path: Path) -> None:
    """Of `app` and `root_agent` in a folder, `app` is taken, since only it brings its plugins."""
    text = NATIVE.format(agent="bare") + (
        "from google.adk.apps.app import App\napp = App(name='app_bot', root_agent=LlmAgent(name='in_app'))\n"
    )
    write(tmp_path / "app_bot" / "__init__.py", "")
    write(tmp_path / "app_bot" / "agent.py", text)
    assert 'in_app("in_app' in cli("viz", "app_bot").out


def test_an_agent_folder_brings_its_environment(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `.env` of a folder is read before it is imported, and does not win over what is set."""
    monkeypatch.setenv("BOT_NAME_SET", "from_outside")
    monkeypatch.setenv("BOT_NAME", "overwritten")
    monkeypatch.delenv("BOT_NAME")
    write(tmp_path / "env_bot" / ".env", "BOT_NAME=from_file\nBOT_NAME_SET=from_file\n")
    write(tmp_path / "env_bot" / "__init__.py", "")
    text = "import os\nfrom adk_fluent import Agent\n"
    text += "root_agent = Agent(os.environ['BOT_NAME']) >> Agent(os.environ['BOT_NAME_SET'])\n"
    write(tmp_path / "env_bot" / "agent.py", text)
    assert "from_file --> from_outside" in cli("viz", "env_bot").out


def test_an_agent_folder_of_yaml(cli: Cli, tmp_path: Path) -> None:
    """A folder with `root_agent.yaml` alone is built by ADK."""
    text = "name: me\nmodel: gemini-2.5-flash\ninstruction: Answer.\n"
    write(tmp_path / "yaml_bot" / "root_agent.yaml", text)
    assert 'me("me' in cli("viz", "yaml_bot").out
    write(tmp_path / "yaml-bot.v2" / "root_agent.yaml", text)
    assert 'me("me' in cli("viz", "yaml-bot.v2").out


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("nothing.py", "There is no file 'nothing.py'."),
        ("som.py", "There is no file 'som.py'. Did you mean 'some.py'?"),
        ("no/such/folder", "There is no file or folder 'no/such/folder'."),
        ("no_such_module", "There is no module, file or agent folder 'no_such_module'."),
        (
            "not a module",
            "'not a module' is no TARGET. Give module:attr, path/file.py, path/file.py:attr, or an agent "
            "folder.",
        ),
        ("somme", "There is no module, file or agent folder 'somme'. Did you mean 'some.py'?"),
        ("hiden", "There is no module, file or agent folder 'hiden'."),
        ("empty.py:zzz", "empty.py has no 'zzz'."),
        ("couple.py:zzz", "couple.py has no 'zzz'. It has one, two."),
        ("some.py:pipelin", "some.py has no 'pipelin'. Did you mean 'pipeline'?"),
        ("some.py:zzz", "some.py has no 'zzz'. It has pipeline."),
        ("some.py:number", "'number' in some.py is of type int, not an expression, ADK agent or App."),
        ("empty.py", "empty.py holds no expression, ADK agent or App."),
        ("typo.py", "typo.py, line 2: '(' was never closed."),
        (
            "raises.py",
            "raises.py cannot be imported (raises.py, line 3): ZeroDivisionError: division by zero",
        ),
        ("misnamed.py", "misnamed.py cannot be imported (misnamed.py, line 2): InvalidNameError: 'my agent'"),
        (
            "plain_folder",
            "'{here}/plain_folder' is no agent folder: it has no agent.py, __init__.py or root_agent.yaml. "
            "Make one with: adk-fluent new plain_folder",
        ),
        (
            "broken_folder",
            "{here}/broken_folder/agent.py cannot be imported (agent.py, line 1): ZeroDivisionError: "
            "division by zero",
        ),
        ("bare_folder", "{here}/bare_folder holds no expression, ADK agent or App."),
        ("bad.name", "Python cannot import the agent folder 'bad.name': rename it to have no dot in it."),
    ],
)
def test_a_bad_target_gives_one_line(cli: Cli, tmp_path: Path, target: str, line: str) -> None:
    """Each bad TARGET gives one line on stderr that says what is wrong, nothing else, and exit code 2."""
    write(tmp_path / "some.py", EXPRESSION.format(name="pipeline", agent="me") + "number = 5\n")
    write(tmp_path / "empty.py", "x = 1\n")
    write(tmp_path / "typo.py", "x = 1\ny = (\n")
    write(tmp_path / "raises.py", "def f():\n    pass\n1 / 0\n")
    write(tmp_path / "misnamed.py", "from adk_fluent import Agent\npipeline = Agent('my agent')\n")
    write(tmp_path / "plain_folder" / "notes.txt", "")
    write(tmp_path / "bad.name" / "agent.py", "")
    write(tmp_path / ".hidden", "")
    write(
        tmp_path / "couple.py",
        "from adk_fluent import Agent\none = Agent('a')\ntwo = Agent('b')\n_own = two\n",
    )
    write(tmp_path / "broken_folder" / "__init__.py", "")
    write(tmp_path / "broken_folder" / "agent.py", "1 / 0\n")
    write(tmp_path / "bare_folder" / "__init__.py", "")
    write(tmp_path / "bare_folder" / "agent.py", "")
    done = cli("viz", target)
    assert (done.code, done.out) == (2, "")
    whole = f"adk-fluent: {line.format(here=tmp_path)}"
    assert done.err.startswith(whole) if target == "misnamed.py" else done.err == f"{whole}\n"
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        ("import sys\nsys.exit()\n", "calls sys.exit() when it is imported (leaves.py, line 4). Put"),
        ("import sys\nsys.exit(0)\n", "calls sys.exit(0) when it is imported (leaves.py, line 4). Put"),
        ("import sys\nsys.exit(2)\n", "calls sys.exit(2) when it is imported (leaves.py, line 4). Put"),
        ("raise SystemExit('bye')\n", "calls sys.exit('bye') when it is imported (leaves.py, line 3). Put"),
        ("import argparse\nargparse.ArgumentParser().parse_args(['--x'])\n", "calls sys.exit(2) when it is"),
    ],
)
@pytest.mark.parametrize("target", ["leaves.py", "leaves", "leaves_bot"])
def test_a_target_that_leaves_is_told(cli: Cli, tmp_path: Path, target: str, ending: str, line: str) -> None:
    """A TARGET that ends the process when it is imported is wrong usage, never a silent success."""
    text = EXPRESSION.format(name="root_agent", agent="me") + ending
    write(tmp_path / "leaves.py", text)
    write(tmp_path / "leaves_bot" / "__init__.py", text)
    done = cli("check", target)
    assert (done.code, done.out) == (2, "")
    told = done.err.splitlines()[-1]
    assert line.partition(" (")[0] in told
    assert 'below: if __name__ == "__main__":' in told
    if target == "leaves.py":
        assert line in told


@pytest.mark.parametrize("command", [["check"], ["explain"], ["preview", "hi"], ["run", "hi"]])
def test_what_a_target_prints_is_no_output(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    """With `--json` the output is JSON alone: what TARGET, its steps and tools print is on stderr."""
    write(tmp_path / "chatty.py", CHATTY)
    name, *rest = command
    done = cli(name, "chatty.py", *rest, "--json")
    assert done.code == 0
    assert done.out
    for document in done.out.splitlines() if name == "run" else [done.out]:
        json.loads(document)
    ran = name in ("preview", "run")
    assert done.err.splitlines() == ["on import", *["in a step", "in a tap"] * ran]


def test_what_a_target_prints_is_no_picture(cli: Cli, tmp_path: Path) -> None:
    """The Mermaid text of `viz` begins with itself."""
    write(tmp_path / "chatty.py", CHATTY)
    done = cli("viz", "chatty.py")
    assert done.out.startswith("flowchart TD\n")
    assert done.err == "on import\n"


def test_a_step_that_leaves_is_told(cli: Cli, tmp_path: Path) -> None:
    """A step that calls `sys.exit` while TARGET runs is a failure, also with the code of success."""
    text = "import sys\nfrom adk_fluent import S\npipeline = S.fn(lambda s: sys.exit(0))\n"
    write(tmp_path / "quits.py", text)
    done = cli("run", "quits.py", "hi")
    assert (done.code, done.out) == (1, "")
    assert done.err == "adk-fluent: the run ended: something in it called sys.exit(0)\n"


def test_debug_shows_the_traceback(cli: Cli, tmp_path: Path) -> None:
    """With `--debug` the error is raised as it is, its cause chained."""
    write(tmp_path / "raises.py", "1 / 0\n")
    with pytest.raises(Exception, match="cannot be imported") as caught:
        cli("viz", "raises.py", "--debug")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_name_of_a_native_value_that_is_no_agent(cli: Cli) -> None:
    """An attribute that is neither expression nor agent is refused by its type."""
    assert "'number' in pipelines.py is of type int" in cli("run", f"{PIPELINES}:number", "hi").err


ZERO = "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("nothing.here:pipeline", "There is no module, file or agent folder 'nothing.here'."),
        ("Xylp", "There is no module, file or agent folder 'Xylp'. Did you mean 'Xylo'?"),
        ("twins", "twins holds one, two; say which one: twins:one"),
        ("imports_bad", "bad.py, line 2: invalid syntax."),
        ("raises", "raises cannot be imported: {zero}"),
        (
            "raises.py",
            "raises.py cannot be imported (raises.py, line 1): {zero}",
        ),
        (
            "raising_bot",
            "{here}/raising_bot cannot be imported (__init__.py, line 2): {zero}",
        ),
    ],
)
def test_what_is_wrong_with_a_target_word_for_word(cli: Cli, tmp_path: Path, target: str, line: str) -> None:
    """The line names the file and the place in it that are wrong, or what was meant."""
    write(tmp_path / "Xylo" / "agent.py", "")
    write(tmp_path / "twins.py", "from adk_fluent import Agent\none = Agent('a')\ntwo = Agent('b')\n")
    write(tmp_path / "bad.py", "x = 1\nx y\n")
    write(tmp_path / "imports_bad.py", "import bad\n")
    write(tmp_path / "raises.py", "1 / 0\n")
    write(tmp_path / "raising_bot" / "__init__.py", "x = 1\n1 / 0\n")
    done = cli("check", target)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"adk-fluent: {line.format(here=tmp_path, zero=ZERO)}\n",
    )


def test_an_agent_folder_that_has_its_app_needs_no_agent_file(cli: Cli, tmp_path: Path) -> None:
    """Where `__init__.py` holds the agent, `agent.py` is not imported, whatever it would do."""
    write(tmp_path / "whole_bot" / "__init__.py", EXPRESSION.format(name="root_agent", agent="me"))
    write(tmp_path / "whole_bot" / "agent.py", "1 / 0\n")
    assert 'me("me' in cli("viz", "whole_bot").out
    assert 'me("me' in cli("viz", "whole_bot:root_agent").out


@pytest.mark.parametrize("command", ["check", "explain"])
def test_what_a_check_of_the_target_prints_is_no_output(cli: Cli, tmp_path: Path, command: str) -> None:
    """A check that TARGET registers may print; that goes to stderr, and the report is JSON alone."""
    write(
        tmp_path / "checked.py",
        "from adk_fluent import Agent\n"
        "from adk_fluent.contracts import register_checker, unregister_checker\n"
        "def loud(root):\n    print('looking')\n    unregister_checker(loud)\n    return []\n"
        "register_checker(loud)\npipeline = Agent('a')\n",
    )
    done = cli(command, "checked.py", "--json")
    assert (done.code, done.err) == (0, "looking\n")
    json.loads(done.out)


def test_a_folder_may_have_a_colon_in_its_name(cli: Cli, tmp_path: Path) -> None:
    """What stands behind the last colon is the name in the file."""
    folder = tmp_path / "odd:name"
    folder.mkdir()
    (folder / "some.py").write_text(EXPRESSION.format(name="found", agent="a"))
    assert cli("explain", f"{folder}/some.py:found").code == 0


DESK = """
from adk_fluent import Agent, Route

triage = Agent("triage").instruct("Which team?").writes("team")
form = Agent("form").instruct("Where to?").writes("destination")
booker = Agent("booker").instruct("Rebook to {destination}.")
biller = Agent("biller").instruct("Explain the bill.")
both = triage >> form

support = both >> Route("team").eq("booking", booker).otherwise(biller)
"""


def test_the_expression_around_the_others_is_taken(cli: Cli, tmp_path: Path) -> None:
    """A file with a pipeline and its parts needs no `:attr`; one more that is no part of it does."""
    write(tmp_path / "desk.py", DESK)
    assert cli("check", "desk.py").out.endswith("1 note; 2 promises hold.\n")
    write(tmp_path / "more.py", DESK + "other = Agent('other')\n")
    assert "say which one: more.py:triage" in cli("check", "more.py").err


def test_the_agent_of_adk_around_the_others_is_taken(cli: Cli, tmp_path: Path) -> None:
    """The same for agents of ADK: the one whose sub-agents and tools the others are."""
    text = "from google.adk.agents import LlmAgent\nfrom google.adk.tools.agent_tool import AgentTool\n"
    text += "a = LlmAgent(name='a')\nb = LlmAgent(name='b')\n"
    text += "boss = LlmAgent(name='boss', sub_agents=[a], tools=[AgentTool(b)])\n"
    write(tmp_path / "team.py", text)
    assert "boss" in cli("viz", "team.py").out
