"""A project in plain ADK becomes source that is read, formatted, and proves itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin

from adk_fluent import Agent
from adk_fluent.adopt import adopt, to_source
from adk_fluent.adopt.source import bare, written
from adk_fluent.errors import ArgumentError
from adk_fluent.state import declares
from tests.adopt.projects import Custom, note_start, save_order
from tests.cli.commands import Cli
from tests.limits import LIMIT

REAL = Path(__file__).parent / "real"
OPAQUE = Custom(name="own")
LAMBDA = LlmAgent(name="short", before_agent_callback=lambda callback_context: None, tools=[save_order])
SHOP = App(name="shop", root_agent=LlmAgent(name="root"), plugins=[BasePlugin(name="watching")])
GRAPH = pytest.param("graph", marks=pytest.mark.newest)  # only the newest ADK has workflows


def made(source: str) -> dict[str, Any]:
    """What the source defines."""
    names: dict[str, Any] = {}
    exec(compile(source, "converted.py", "exec"), names)  # it is ours
    return names


@pytest.mark.parametrize("project", ["customer_service", "research", GRAPH])
def test_real_projects_are_converted_and_prove_it(cli: Cli, tmp_path: Path, project: str) -> None:
    """The converted file has the same tree, and runs alike, to every agent."""
    done = cli("convert", REAL / project, "-o", "converted.py", "--verify")
    assert "verified: the same tree, and, with a scripted model" in done.err, done.err
    assert done.code == 0
    assert "pipeline" in (tmp_path / "converted.py").read_text()


@pytest.mark.parametrize("project", ["customer_service", "research", GRAPH])
def test_real_projects_have_no_errors(cli: Cli, project: str) -> None:
    """Nothing is wrong with them, and nothing is said to be."""
    assert cli("check", REAL / project).code == 0


@pytest.mark.newest
@pytest.mark.parametrize("project", ["customer_service", "research"])
def test_the_source_is_formatted(cli: Cli, tmp_path: Path, project: str) -> None:
    """A formatter leaves it as it is."""
    cli("convert", REAL / project, "-o", "converted.py")
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--diff", str(tmp_path / "converted.py")]
    assert subprocess.run(ruff, capture_output=True, text=True, check=False, timeout=LIMIT).stdout == ""


def test_what_reads_as_it_was_written() -> None:
    """Text of several lines stays so, functions are imported, an agent is a variable of its name."""
    native = LlmAgent(
        name="desk",
        instruction='Be kind.\n\nSay "hi".\n',
        before_agent_callback=note_start,
        sub_agents=[LlmAgent(name="class", model="m", description="It's one.", tools=[save_order])]
        if "class".isidentifier()
        else [],
    )
    assert to_source(native) == (
        "from adk_fluent import Agent\n\n"
        "from tests.adopt.projects import note_start, save_order\n\n"
        'class_agent = Agent("class", "m").describe("It\'s one.").tools(save_order)\n'
        "pipeline = (\n"
        '    Agent("desk")\n'
        "    .before_agent(note_start)\n"
        '    .instruct("""Be kind.\n\nSay "hi".\n""")\n'
        "    .delegate(class_agent)\n"
        ")\n"
        "root_agent = pipeline.build()\n"
    )


def test_what_has_no_name_is_taken_from_the_native_agent_and_told() -> None:
    """A lambda cannot be imported: the source says where it is from, and why."""
    source = written(LAMBDA)
    (line,) = source.native
    assert line == "before_agent_callback[0] of short: <lambda> has no name that could be imported."
    assert source.text.startswith(f"# Left native: {line}\n")
    assert bare(made(source.text)["pipeline"]) == bare(adopt(LAMBDA))


def test_an_opaque_agent_is_adopted_with_what_was_declared() -> None:
    """The source adopts the object itself."""
    expression = Agent("a") >> adopt(OPAQUE, declare={"own": declares(writes=["x"])})
    text = to_source(expression)
    assert 'adopt(OPAQUE, declare={"own": declares(writes=["x"])})' in text
    assert bare(made(text)["pipeline"]) == bare(expression)


def test_an_app_keeps_its_plugins_and_settings() -> None:
    """The source makes an app again."""
    names = made(to_source(SHOP))
    assert names["app"].name == "shop"
    assert bare(names["pipeline"]) == bare(adopt(SHOP))


def test_what_cannot_be_referred_to_is_one_line() -> None:
    """Each names the agent, and what to do."""
    with pytest.raises(ArgumentError, match=r"cannot refer to before_agent_callback.0. of 'nameless'"):
        to_source(LlmAgent(name="nameless", before_agent_callback=lambda callback_context: None))
    with pytest.raises(ArgumentError, match="cannot refer to 'gone', a Custom"):
        to_source(Custom(name="gone"))


def test_an_agent_below_another_is_written_alone() -> None:
    """Its root is not what was asked for, nor is that an app."""
    below = LlmAgent(name="below", instruction="Help.")
    LlmAgent(name="above", sub_agents=[below])
    assert 'pipeline = Agent("below").instruct("Help.")' in to_source(below)


NUMBERED = """
from google.adk.agents import LlmAgent


def pay(amount: int) -> int:
    '''Pay.'''
    return amount


root_agent = LlmAgent(name="boss", instruction="{tier}", tools=[pay])
"""


@pytest.mark.parametrize("name", ["01_shop", "my-shop", "class"])
def test_a_file_whose_name_is_none_of_pythons(
    name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is checked and converted, and what is written finds it without us."""
    (tmp_path / f"{name}.py").write_text(NUMBERED)
    assert f"at {name}.py:" in cli("check", f"{name}.py").out
    done = cli("convert", f"{name}.py", "--verify")
    assert (done.code, "verified" in done.err) == (0, True), done.err
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tool,) = made(done.out)["pipeline"].node.tools
    monkeypatch.delitem(sys.modules, name)
    assert (tool.__module__, tool(3)) == (name, 3)


def test_a_file_that_no_import_finds_is_refused(cli: Cli, tmp_path: Path) -> None:
    """A dot in its name makes it a part of a package; it is refused if something of it is needed."""
    (tmp_path / "my.shop.py").write_text(NUMBERED)
    done = cli("convert", "my.shop.py", "-o", "out.py")
    assert done.code == 1
    assert "Python cannot import 'my.shop.py'" in done.err
    assert not (tmp_path / "out.py").exists()
    (tmp_path / "my.shop.py").write_text(NUMBERED.replace(", tools=[pay]", ""))
    assert cli("convert", "my.shop.py").code == 0


def test_a_configuration_with_built_in_tools_is_converted(cli: Cli, tmp_path: Path) -> None:
    """ADK's own tools are imported from ADK; one made with arguments is made again."""
    folder = tmp_path / "searching"
    folder.mkdir()
    config = "name: boss\nmodel: gemini-2.5-flash\ninstruction: Search.\ntools:\n"
    (folder / "root_agent.yaml").write_text(f"{config}  - name: google_search\n  - name: url_context\n")
    done = cli("convert", "searching", "--verify")
    assert (done.code, "verified" in done.err) == (0, True), done.err
    assert "from google.adk.tools import google_search, url_context" in done.out
    store = "    args:\n      data_store_id: projects/p/locations/l/collections/c/dataStores/d\n"
    (folder / "root_agent.yaml").write_text(f"{config}  - name: VertexAiSearchTool\n{store}")
    done = cli("convert", "searching", "--verify")
    assert (done.code, "verified" in done.err) == (0, True), done.err
    assert 'ToolArgsConfig(data_store_id="projects/p/locations/l/collections/c/dataStores/d")' in done.out


MAKERS = """
import threading
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool


def made(args):
    unit = args.model_dump()["unit"]

    def weather(city: str) -> str:
        \"\"\"The weather.\"\"\"
        return f"{city}: 20 {unit}"

    return weather


def tool(args):
    return FunctionTool(made(args))


class Echo(BaseTool):
    def __init__(self, prefix: str = "") -> None:
        super().__init__(name="echo", description=f"Begins with {prefix}")
        self.prefix = prefix

    @classmethod
    def from_config(cls, config, config_abs_path):
        return cls(**config.model_dump())


class Locked(Echo):
    def __init__(self, prefix: str = "") -> None:
        super().__init__(prefix)
        self.lock = threading.Lock()
"""


@pytest.mark.parametrize(
    ("name", "args", "call", "reason"),
    [
        ("made", "unit: F", 'made(ToolArgsConfig(unit="F"))', ""),
        ("tool", "unit: F", 'tool(ToolArgsConfig(unit="F")).func', ""),
        ("Echo", "prefix: '> '", 'Echo.from_config(ToolArgsConfig(prefix="> "), "yamled/kid.yaml")', ""),
        ("Locked", "prefix: x", 'Locked.from_config(ToolArgsConfig(prefix="x"), ', "tools[0] of 'kid', <"),
    ],
    ids=["a function", "a tool of a function", "a class", "what cannot be compared"],
)
def test_a_tool_that_a_configuration_makes_with_arguments(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, args: str, call: str, reason: str
) -> None:
    """It is written as the call that makes it, also in a file that another names; it is verified or named."""
    monkeypatch.delitem(sys.modules, "makers", raising=False)
    (tmp_path / "makers.py").write_text(MAKERS)
    (tmp_path / "yamled").mkdir()
    (tmp_path / "yamled" / "root_agent.yaml").write_text(
        "name: boss\nmodel: gemini-2.5-flash\ninstruction: Ask.\nsub_agents:\n  - config_path: kid.yaml\n"
    )
    (tmp_path / "yamled" / "kid.yaml").write_text(
        "name: kid\nmodel: gemini-2.5-flash\ninstruction: Help.\n"
        f"tools:\n  - name: makers.{name}\n    args: {{{args}}}\n"
    )
    done = cli("convert", "yamled", "--verify")
    assert call in done.out, done.err
    assert (done.code, "verified" in done.err) == ((1, False) if reason else (0, True)), done.err
    assert reason in done.err
