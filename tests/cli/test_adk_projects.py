"""The command line on projects in plain ADK: folders, modules, configurations, and what a CI needs of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import Cli

PROJECT = """\
from google.adk.agents import LlmAgent

BOOKER = "booker"
booker = LlmAgent(
    name=BOOKER,
    model="gemini-2.5-flash",
    instruction="Book. {intnt}",
)
root_agent = LlmAgent(
    name="support",
    model="gemini-2.5-flash",
    instruction="Hello",
    output_key="intent",
    sub_agents=[booker],
)
"""
CONFIG = "agent_class: LlmAgent\nname: yamled\nmodel: gemini-2.5-flash\ninstruction: Say {nothing}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent folder, as `adk create` makes it, with a misspelt key."""
    made = tmp_path / "desk"
    made.mkdir()
    (made / "__init__.py").write_text("from . import agent\n")
    (made / "agent.py").write_text(PROJECT)
    return made


def test_check_names_the_file_and_line_where_the_agent_is_made(cli: Cli, folder: Path) -> None:
    """The agent that reads a key nobody writes, in a project that knows nothing of adk-fluent."""
    done = cli("check", folder)
    assert (done.code, done.err) == (1, "")
    assert "booker reads {intnt} in instruction: ERROR" in done.out
    assert (
        'Did you mean "intent"?\n  If you mean the text {intnt}, write \\{intnt}.\n  at desk/agent.py:4\n'
        in done.out
    )


MADE_ELSEWHERE = """\
from google.adk.agents import LlmAgent

from .settings import Names, settings

def researcher(topic: str) -> LlmAgent:
    return LlmAgent(name=f"{topic}_researcher", instruction="Find {one}.")


def made(name: str) -> LlmAgent:
    return LlmAgent(name=name, instruction="Use {two}.")


helper = made("helper")
root_agent = LlmAgent(
    name=settings.agent.name,
    instruction="Hello {three}.",
    sub_agents=[helper, researcher("art"), LlmAgent(name=Names.LAST, instruction="{four}")],
)
"""
SETTINGS = """\
from types import SimpleNamespace

settings = SimpleNamespace(agent=SimpleNamespace(name="desk"))


class Names:
    LAST = "last"
"""


def test_lines_of_agents_whose_name_is_computed(cli: Cli, folder: Path) -> None:
    """Settings, constants of a class, f-strings and factories name agents, not only texts."""
    (folder / "agent.py").write_text(MADE_ELSEWHERE)
    (folder / "settings.py").write_text(SETTINGS)
    issues = json.loads(cli("check", folder, "--json").out)["issues"]
    found = {issue["key"]: (issue["agent"], issue["line"]) for issue in issues if issue["key"]}
    assert found == {
        "one": ("art_researcher", 6),
        "two": ("helper", 13),
        "three": ("desk", 14),
        "four": ("last", 17),
    }


@pytest.mark.parametrize("target", ["desk", "desk.agent", "desk/agent.py", "desk/agent.py:root_agent"])
def test_every_way_to_name_a_project(cli: Cli, folder: Path, target: str) -> None:
    """A folder, a module and a file find the same."""
    issue = json.loads(cli("check", target, "--json").out)["issues"][0]
    assert (issue["agent"], issue["key"], issue["file"], issue["line"]) == (
        "booker",
        "intnt",
        "desk/agent.py",
        4,
    )


@pytest.mark.parametrize("target", ["yamled", "yamled/root_agent.yaml"])
def test_lines_in_configurations_that_others_include(cli: Cli, tmp_path: Path, target: str) -> None:
    """A finding names the YAML file that describes the agent, not the one that includes it."""
    (tmp_path / "yamled" / "parts").mkdir(parents=True)
    included = "sub_agents:\n  - config_path: parts/inner.yaml\n"
    (tmp_path / "yamled" / "root_agent.yaml").write_text(CONFIG.replace(" {nothing}", "") + included)
    (tmp_path / "yamled" / "parts" / "inner.yaml").write_text(CONFIG.replace("yamled", "inner"))
    issue = json.loads(cli("check", target, "--json").out)["issues"][0]
    assert (issue["agent"], issue["file"], issue["line"]) == ("inner", "yamled/parts/inner.yaml", 2)


@pytest.mark.parametrize("target", ["yamled", "yamled/root_agent.yaml"])
def test_a_configuration_of_adks(cli: Cli, tmp_path: Path, target: str) -> None:
    """A `root_agent.yaml` is checked, and the finding points into it."""
    (tmp_path / "yamled").mkdir()
    (tmp_path / "yamled" / "root_agent.yaml").write_text(CONFIG)
    done = cli("check", target)
    assert done.code == 1
    assert "yamled reads {nothing} in instruction: ERROR" in done.out
    assert "  at yamled/root_agent.yaml:2\n" in done.out


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        (("explain",), "booker"),
        (("viz",), "may hand over"),
        (("preview", "hi"), "Hello"),
        (("estimate",), "support"),
    ],
)
def test_the_other_commands(cli: Cli, folder: Path, command: tuple[str, ...], shows: str) -> None:
    """What looks at a pipeline looks at plain ADK, too."""
    name, *rest = command
    done = cli(name, folder, *rest)
    assert (done.code, done.err) == (0, "")
    assert shows in done.out


def test_sarif(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """The file has what SARIF 2.1.0 wants of a log: a driver with rules, and results with places."""
    assert cli("check", folder, "--sarif", "out.sarif").code == 1
    log: Any = json.loads((tmp_path / "out.sarif").read_text())
    (run,) = log["runs"]
    (result,) = run["results"]
    assert (log["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "adk-fluent")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert (result["level"], result["ruleId"]) == ("error", "unresolved-template-var")
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "desk/agent.py"}, "region": {"startLine": 4}}
    assert result["partialFingerprints"]


def test_annotations(cli: Cli, folder: Path) -> None:
    """One workflow command a finding, on a line of its own."""
    (line,) = cli("check", folder, "--github").out.splitlines()
    assert line.startswith("::error file=desk/agent.py,line=4,title=unresolved-template-var::booker reads")
    assert "%0A" in line


def test_a_baseline_lets_a_team_start_today(cli: Cli, folder: Path, tmp_path: Path) -> None:
    """What was there when it was written is left out, wherever its line moves; what is new is told."""
    first = cli("check", folder, "--baseline", "known.json")
    assert (first.code, first.err) == (0, "wrote known.json: 1 findings that are known from now on\n")
    file = folder / "agent.py"
    file.write_text("\n\n" + PROJECT.replace('"Hello"', '"Hello {stranger}"'))
    for name in ("desk", "desk.agent"):
        __import__("sys").modules.pop(name, None)
    again = cli("check", folder, "--baseline", "known.json")
    assert again.code == 1
    assert "support reads {stranger}" in again.out
    assert "intnt" not in again.out
    (tmp_path / "known.json").write_text("[]")
    wrong = cli("check", folder, "--baseline", "known.json")
    assert (wrong.code, wrong.out) == (2, "")
    assert "'known.json' is no baseline of adk-fluent" in wrong.err


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import nowhere_to_be_found\n", "(agent.py, line 1): ModuleNotFoundError: No module named"),
        ("x = 1\n", "holds no expression, ADK agent or App"),
        (
            "from google.adk.agents import LlmAgent\n"
            "a, root_agent = LlmAgent(name='a'), LlmAgent(name='b')\n"
            "a.sub_agents.append(root_agent)\nroot_agent.sub_agents.append(a)\n",
            "Agents stand in a circle: b > a > b",
        ),
        (
            "from google.adk.agents import LlmAgent\n"
            "a = LlmAgent(name='a')\nb = LlmAgent(name='b', sub_agents=[a])\n"
            "root_agent = LlmAgent(name='c', sub_agents=[a, b])\n",
            "(agent.py, line 4): ValidationError: Agent `a` already has a parent agent, current parent: `b`, "
            "trying to add: `c`\n",
        ),
        (
            "from google.adk.agents import LlmAgent\n"
            "async def make():\n    return LlmAgent(name='a')\n\n"
            "root_agent = make()\n",
            "'root_agent' in {folder} is of type coroutine, not an expression, ADK agent or App. "
            "Await it where it is made: root_agent = asyncio.run(...).",
        ),
    ],
)
def test_bad_projects_are_one_line(cli: Cli, folder: Path, source: str, told: str) -> None:
    """The user's own error with its place, no agent, a circle, and an agent given twice."""
    (folder / "agent.py").write_text(source)
    done = cli("check", folder)
    assert (done.code > 0, done.out) == (True, "")
    assert told.format(folder=folder) in done.err
    assert done.err.count("\n") == 1


def test_a_folder_of_agent_folders(cli: Cli, folder: Path) -> None:
    """The line names those in it."""
    (folder.parent / "dice").mkdir()
    (folder.parent / "dice" / "root_agent.yaml").write_text(CONFIG)
    done = cli("check", folder.parent)
    assert done.code == 2
    assert "Give one of those in it: desk, dice." in done.err


def test_a_configuration_in_a_package(cli: Cli, folder: Path) -> None:
    """As ADK looks for it: where neither the package nor its agent.py has an agent."""
    (folder / "agent.py").unlink()
    (folder / "__init__.py").write_text("")
    (folder / "root_agent.yaml").write_text(CONFIG)
    done = cli("check", folder)
    assert "yamled reads {nothing} in instruction: ERROR" in done.out, done.err
    assert "at desk/root_agent.yaml:2" in done.out


LARGE = """\
import asyncio

from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import google_search
from google.genai import types


class Own(BaseAgent):
    async def _run_async_impl(self, ctx):
        return
        yield


class Moody(LlmAgent):
    mood: str = "kind"


class Telling(BasePlugin):
    async def before_run_callback(self, *, invocation_context):
        print("a plugin tells")


def look(place: str) -> str:
    return place


moody = Moody(name="moody", description="Is moody.", tools=[look], output_key="mood")
trip = SequentialAgent(name="trip", sub_agents=[Own(name="own"), LlmAgent(name="end", tools=[google_search])])
root_agent = LlmAgent(
    name="boss",
    sub_agents=[moody, trip],
    generate_content_config=types.GenerateContentConfig(
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HATE_SPEECH,
                threshold=types.HarmBlockThreshold.BLOCK_NONE,
            )
        ]
    ),
)
app = App(name="large", root_agent=root_agent, plugins=[Telling(name="telling")])
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ADK's own, of SequentialAgent
def test_a_project_with_classes_of_its_own(cli: Cli, folder: Path) -> None:
    """It is explained, and converted: classes stay, ADK's values and tools are written."""
    (folder / "agent.py").write_text(LARGE)
    done = cli("explain", folder)
    assert (done.code, done.err) == (0, "")
    assert "moody_as_given (native)" in done.out
    assert "own (native)" in done.out
    done = cli("convert", folder, "--verify")
    assert "same events, state, tool calls and model requests" in done.err, done.err
    assert "a plugin tells" not in done.out + done.err
    assert "moody, a Moody: its class has more than LlmAgent: fields or methods of its own." in done.err
    assert "from google.adk.tools import google_search\n" in done.out
    assert "types.HarmBlockThreshold.BLOCK_NONE" in done.out
    assert ".middleware(native_app.plugins[0])" in done.out


def test_the_hook_calls_the_check() -> None:
    """The definition for pre-commit names a command that there is."""
    (hook,) = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["entry"]) == ("adk-fluent-check", "adk-fluent check")
    assert hook["pass_filenames"] is False


STARTS = """
from shop.agent import root_agent
from constants import REGION

START = {"tier": "gold", REGION: None}


async def main(service, user):
    await service.create_session(app_name="shop", user_id=user, state={**START, "name": user} | dict(tries=1))
"""


def test_state_that_a_project_gives_to_its_sessions_counts(cli: Cli, tmp_path: Path) -> None:
    """As its source shows it, in the folder or a file beside that imports it; `{odd}` is no part."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text(
        "from google.adk.agents import LlmAgent\n"
        "root_agent = LlmAgent(name='a', instruction='{tier} {name} {tries} {region} {odd}')\n"
    )
    assert "5 errors" in cli("check", "shop").out
    (tmp_path / "constants.py").write_text("from shop import agent\nREGION = 'region'\n")
    (tmp_path / "main.py").write_text(STARTS)
    (tmp_path / "other.py").write_text("service.create_session(state={'odd': 1})\n")
    done = cli("check", "shop")
    assert "reads {odd}" in done.out
    assert "1 error;" in done.out, done.out


def test_state_of_a_file_and_of_tests(cli: Cli, tmp_path: Path) -> None:
    """A file is read itself; what only its tests pass does not count."""
    made = (
        "from google.adk.agents import LlmAgent\n"
        "root_agent = LlmAgent(name='a', instruction='{tier} {odd}')\n"
    )
    tail = "\n\nasync def main(service):\n    await service.create_session(state={'tier': 'gold'})\n"
    (tmp_path / "stall.py").write_text(made + tail)
    (tmp_path / "test_stall.py").write_text("import stall\nservice.create_session(state={'odd': 1})\n")
    assert "1 error;" in cli("check", "stall.py").out
