"""What proves a conversion: both sides run with the same script and call tools, whose own code never runs."""

from __future__ import annotations

import asyncio
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from google.adk import agents as adk_agents
from google.adk.agents import LlmAgent
from google.adk.tools import FunctionTool, google_search
from google.adk.tools import exit_loop as adk_exit_loop
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from pydantic import BaseModel

from adk_fluent import Agent
from adk_fluent.adopt import adopt, run_comparison
from adk_fluent.adopt.proving import run_alike
from adk_fluent.adopt.source import GeneratedSource
from adk_fluent.adopt.tool_stubs import StandingBackend, callable_tools, calls_of
from adk_fluent.backends.stand_ins import in_form
from adk_fluent.cli import convert as convert_module
from adk_fluent.cli.convert import scripts
from adk_fluent.debug import Recorder, ReplayerBackend
from adk_fluent.ir.tools import loop_enders
from adk_fluent.testing import mock_backend
from tests.adopt.projects import look_up, shell
from tests.cli.commands import Cli

PROJECT = '''
from google.adk.agents import LlmAgent
from google.adk.tools import FunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from pydantic import BaseModel


class Address(BaseModel):
    """Where."""

    street: str
    number: int


def _happened(what):
    with open("happened.txt", "a") as file:
        file.write(what + "\\n")


def pay(amount: float, to: Address, tool_context: ToolContext) -> dict:
    """Pay."""
    _happened("pay")
    tool_context.state["paid"] = amount
    return {"paid": amount}


def send(text: str, urgent: bool = False) -> str:
    """Send."""
    _happened("send")
    return "sent"


def refund(order: str) -> str:
    """Pay back."""
    _happened("refund")
    return "back"


class Printer(BaseTool):
    def _get_declaration(self):
        return types.FunctionDeclaration(
            name=self.name,
            description="Prints.",
            parameters=types.Schema(
                type="OBJECT", properties={"pages": types.Schema(type="INTEGER")}, required=["pages"]
            ),
        )

    async def run_async(self, *, args, tool_context):
        _happened("print")
        return "printed"


def before(tool, args, tool_context):
    tool_context.state["asked:" + tool.name] = sorted(args)


def after(tool, args, tool_context, tool_response):
    tool_context.state["got:" + tool.name] = str(tool_response)


printer = Printer(name="printer", description="Prints.")
sender = FunctionTool(send)
expert = LlmAgent(name="expert", instruction="Know.")
asking = FunctionTool(refund, require_confirmation=True)
clerk = LlmAgent(name="clerk", description="Pays.", tools=[pay, asking])
desk = LlmAgent(name="desk", description="Helps.", tools=[sender], sub_agents=[clerk])
root_agent = LlmAgent(
    name="boss",
    tools=[printer, AgentTool(expert)],
    sub_agents=[desk],
    before_tool_callback=before,
    after_tool_callback=after,
)
'''


def test_every_tool_is_called_and_none_does_anything(cli: Cli, tmp_path: Path) -> None:
    """Those of agents far below too; one that asks a person is left alone, and named."""
    (tmp_path / "office.py").write_text(PROJECT)
    done = cli("convert", "office.py", "--verify", "-o", "out.py")
    assert "same events, state, tool calls and model requests" in done.err, done.err
    assert done.code == 0
    assert "not called: refund of clerk" in done.err
    assert not (tmp_path / "happened.txt").exists()


async def test_calls_are_recorded_with_arguments_of_their_declaration() -> None:
    """And the tools are what they were afterwards."""
    from adk_fluent.adopt.tool_stubs import StandingBackend

    tool = FunctionTool(look_up)
    native = LlmAgent(name="clerk", tools=[tool])
    script: Any = {"clerk": [calls_of(["look_up"], "nothing"), "done"]}
    backend = StandingBackend(script)
    result = await adopt(native).run("go", backend=backend)
    assert [(agent, name, args, fn) for agent, name, args, fn in backend.standing.called] == [
        ("clerk", "look_up", {"order": "text"}, look_up)
    ]
    assert result.text == "done"
    backend.standing.restore()
    assert "run_async" not in vars(tool)
    assert await run_alike(native, adopt(native), answers=script, tools="recorded") == []
    assert "run_async" not in vars(tool)


def wanted(order: int) -> str:
    """Another declaration of the same name."""
    return str(order)


wanted.__name__ = "look_up"


async def test_another_declaration_or_another_body_is_a_difference() -> None:
    """Although what is said is the same."""
    native = LlmAgent(name="clerk", tools=[look_up])
    script: Any = {"clerk": [calls_of(["look_up"], "nothing"), "done"]}
    found = await run_alike(native, Agent("clerk").tools(wanted), answers=script, tools="recorded")
    assert any(line.startswith("the model of 'clerk' is asked") for line in found)
    assert any(line.startswith("the tools are called with") for line in found)


def fails(callback_context: Any) -> None:
    """A callback that fails."""
    raise KeyError("tier")


async def test_who_fails_is_said() -> None:
    """One side alone is a difference; both are the user's own fault, which is raised."""
    native = LlmAgent(name="clerk", before_agent_callback=fails)
    (line,) = await run_alike(native, Agent("clerk"))
    assert line.startswith("only what ADK made fails: ")
    (line,) = await run_alike(LlmAgent(name="clerk"), Agent("clerk").before_agent(fails))
    assert line.startswith("only the expression fails: ")
    with pytest.raises(Exception, match="tier"):
        await run_alike(native, adopt(native))


class Far(BaseTool):
    """A tool whose calls are over before its work is."""

    is_long_running = True


def test_what_may_be_called() -> None:
    """The user's functions and tools, and agents in tools; nothing that waits, asks, or is a set."""
    from google.adk.tools import exit_loop, google_search
    from google.adk.tools.agent_tool import AgentTool

    from tests.tools.every import Box

    far = Far(name="far", description="")
    far.is_long_running = True
    inner = AgentTool(LlmAgent(name="inner"))
    agent: Any = adopt(
        LlmAgent(name="a", tools=[look_up, inner, FunctionTool(look_up, require_confirmation=True), far])
    ).node
    assert callable_tools(agent) == (["look_up", "inner"], ["look_up", "far"])
    other: Any = adopt(LlmAgent(name="b", tools=[exit_loop, google_search, Box()])).node
    assert callable_tools(other) == ([], ["google_search", "Box"])


@pytest.mark.newest
def test_an_agent_that_is_called_as_a_tool_is_called_as_one() -> None:
    """The proof calls agents with a mode as ADK offers them, and lets a task finish."""
    child = LlmAgent(name="child", mode="task")
    root = LlmAgent(name="root", sub_agents=[child, LlmAgent(name="other", mode="single_turn")])
    ran: list[list[str]] = []
    for _, script in scripts(adopt(root).node):
        backend = StandingBackend(script, default="An answer.")
        events = asyncio.run(run_comparison.played(root, backend, "Hello.", {})).events
        ran.append([call[0] for event in events for call in event[2]])
    assert ran == [[], ["child", "finish_task"], ["other"]]


LOOPS = """
from google.adk.agents import LlmAgent, LoopAgent, SequentialAgent
from google.adk.events import EventActions
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types


def exit_loop(tool_context: ToolContext):
    tool_context.actions.escalate = True
    return {}


def stop(context):
    setattr(context.actions, "escalate", True)


def enough(done: bool, tool_context: ToolContext) -> str:
    if done:
        stop(tool_context)
    return "left"


class Leave(BaseTool):
    def _get_declaration(self):
        return types.FunctionDeclaration(name=self.name, description="Leave.")

    async def run_async(self, *, args, tool_context):
        tool_context.actions.escalate = True


def loop(name, tool):
    writer = LlmAgent(name=f"{name}_writer", instruction="Write.", output_key="draft")
    critic = LlmAgent(name=f"{name}_critic", instruction="Judge {draft}", tools=[tool])
    return LoopAgent(name=name, max_iterations=3, sub_agents=[writer, critic])


leave = Leave(name="leave", description="Leave.")
root_agent = SequentialAgent(
    name="root", sub_agents=[loop("one", exit_loop), loop("two", enough), loop("three", leave)]
)
"""


def test_a_tool_that_ends_a_loop_ends_it_in_the_proof(cli: Cli, tmp_path: Path) -> None:
    """A project's own `exit_loop`, a function of another name and a tool's class: each ends its loop."""
    folder = tmp_path / "loops"
    folder.mkdir()
    (folder / "agent.py").write_text(LOOPS)
    (folder / "__init__.py").write_text("from . import agent\n")
    done = cli("convert", "loops", "--verify")
    assert (done.code, done.err.startswith("verified")) == (0, True), done.err


def escalating(tool_context: Any) -> None:
    """Leave."""
    tool_context.actions.escalate = True


def exit_loop(text: str) -> str:
    """Only called so."""
    return text


@pytest.mark.filterwarnings("ignore:LoopAgent is deprecated:DeprecationWarning")
async def test_what_a_tool_does_counts_not_its_name() -> None:
    """A function that sets `escalate` ends its loop in a proof's run; one that is only called so does not."""
    assert loop_enders([escalating, exit_loop]) == ("escalating",)
    agent = LlmAgent(name="a", tools=[escalating])
    loop = shell("LoopAgent", "loop", agent, max_iterations=9)
    [(_, script), *_] = scripts(adopt(loop).node)
    backend = StandingBackend(script, default="An answer.")
    events = (await run_comparison.played(loop, backend, "Hello.", {})).events
    assert [[call[0] for call in event[2]] for event in events] == [[], ["escalating"], [], []]


def test_a_file_that_cannot_be_imported_is_not_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversion imports what it will write first; if that fails, it says why and writes nothing."""
    (tmp_path / "plain.py").write_text(
        "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='plain')\n"
    )

    def written(_: object) -> GeneratedSource:
        return GeneratedSource("from nowhere_at_all import pipeline\n")

    monkeypatch.setattr(convert_module, "written", written)
    done = cli("convert", "plain.py", "-o", "made.py")
    assert (done.code, done.out) == (1, "")
    assert "cannot be converted" in done.err
    assert "nowhere_at_all" in done.err
    assert not (tmp_path / "made.py").exists()


SUMMARIZED = """
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models import Gemini

root_agent = LlmAgent(name="a", instruction="Hi")
summarizer = LlmEventSummarizer(llm=Gemini(model="gemini-2.5-flash"))
compaction = EventsCompactionConfig(compaction_interval=3, overlap_size=1, summarizer=summarizer)
app = App(name="summed", root_agent=root_agent, events_compaction_config=compaction)
"""


def test_an_app_with_a_summarizer_of_its_own_is_refused(cli: Cli, tmp_path: Path) -> None:
    """The file would fail when it is imported, so none is written, and the code is 1."""
    (tmp_path / "summed.py").write_text(SUMMARIZED)
    done = cli("convert", "summed.py", "-o", "made.py")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("adk-fluent: App 'summed' has a summarizer of its own")
    assert not (tmp_path / "made.py").exists()


async def test_what_two_native_runs_do_differently_is_not_compared_and_said() -> None:
    """An id differs in each run; the words around it are compared, and shown where they differ."""
    numbers = iter(range(100))

    def instruct(_: object) -> str:
        return f"{'Be kind. ' * 60}Request {next(numbers)}. Sort."

    native, left = LlmAgent(name="clerk", instruction=instruct), list[str]()
    assert await run_alike(native, adopt(native), left_out=left) == []
    assert [line.partition(":")[0] for line in left] == ["requests of clerk"]
    other = LlmAgent(name="clerk", instruction=lambda _: instruct(_).replace("Sort", "Drop"))
    (line,) = await run_alike(native, adopt(other))
    assert "Sort." in line
    assert "Drop." in line


def test_agents_in_tools_are_checked_but_for_the_state_of_their_caller() -> None:
    """A tool that only Gemini runs, names, and loops; what is in state only the whole project says."""
    kid = LlmAgent(name="kid_agent", model="openai/gpt-4o", instruction="Help.")
    inner = LlmAgent(
        name="inner",
        model="openai/gpt-4o",
        instruction="Ask kd_agent about {a}.",
        tools=[google_search],
        sub_agents=[kid],
    )
    middle = LlmAgent(name="middle", instruction="Ask.", tools=[AgentTool(agent=inner)])
    endless = shell("LoopAgent", "endless", LlmAgent(name="again", instruction="Say {nothing?}."))
    tools: Any = [AgentTool(agent=middle), AgentTool(agent=endless)]
    report = adopt(LlmAgent(name="hub", instruction="Ask `midle`.", tools=tools)).check()
    found = {(issue.code, issue.agent) for issue in (*report.errors, *report.warnings)}
    assert {("gemini-tool", "inner"), ("misnamed-agent", "inner"), ("misnamed-agent", "hub")} < found
    assert "endless" in {agent for _, agent in found}
    assert [issue.agent for issue in report.errors if issue.key] == ["hub"]  # for {a}, once


class Trip(BaseModel):
    """A typed answer with a field that may be missing."""

    name: str
    start: str | None = None


async def test_an_adopted_agent_stores_its_typed_answer_as_adk_does() -> None:
    """ADK leaves fields that are `None` out; an expression stores them, which is compared as the same."""
    native = LlmAgent(name="planner", output_schema=Trip, output_key="trip")
    script = {"planner": '{"name": "Ulm"}'}
    result = await adopt(native).run("go", backend=mock_backend(script))
    assert result.state["trip"] == {"name": "Ulm"}
    fluent = Agent("planner").returns(Trip).writes("trip")
    result = await fluent.run("go", backend=mock_backend(script))
    assert result.state["trip"] == {"name": "Ulm", "start": None}
    assert await run_alike(native, fluent, answers=script) == []


class Level(Enum):
    """A value that is no JSON."""

    HIGH = "high"


class Order(BaseModel):
    """A typed answer with a value of each kind that JSON does not tell apart."""

    level: Level
    day: date
    price: Decimal
    code: UUID
    trip: Trip
    trips: list[Trip]
    note: str | None = None


ORDER = (
    '{"level": "high", "day": "2026-01-02", "price": "1.50", "code": "12345678-1234-5678-1234-567812345678", '
    '"trip": {"name": "Ulm"}, "trips": [{"name": "Bonn"}]}'
)


def _showing(schema: Any) -> Any:
    """A native project in which an instruction shows a typed answer."""
    planner = LlmAgent(name="planner", output_schema=schema, output_key="order")
    return shell("SequentialAgent", "trip", planner, LlmAgent(name="writer", instruction="About {order}"))


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated")
@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (Order, ORDER),
        *(
            pytest.param(*case, marks=pytest.mark.newest)  # older ones take models alone
            for case in (
                (list[Trip], '[{"name": "Ulm"}]'),
                (dict[str, int | None], '{"a": null}'),
                (dict[str, Trip], '{"a": {"name": "Ulm", "start": null}}'),
                (list[date], '["2026-01-02"]'),
            )
        ),
    ],
    ids=repr,
)
async def test_an_adopted_agent_shows_a_typed_answer_as_adk_does(schema: Any, answer: str) -> None:
    """ADK keeps Python values of models and of lists of models; every other answer is the JSON as it is."""
    native = _showing(schema)
    assert await run_alike(native, adopt(native), answers={"planner": answer}) == []


async def test_an_expression_shows_a_typed_answer_in_json() -> None:
    """An adopted agent keeps an enumeration as ADK does; an expression shows the values that stores keep."""
    backend = mock_backend({"planner": ORDER, "writer": "ok"})
    await adopt(_showing(Order)).run("go", backend=backend)
    fluent = Agent("planner").returns(Order).writes("order") >> Agent("writer").instruct("About {order}")
    await fluent.run("go", backend=backend)
    adopted, shown = [asked.system for asked in backend.calls["writer"]]
    assert "About {'level': <Level.HIGH: 'high'>, 'day': datetime.date(2026, 1, 2)" in adopted
    assert (
        "About {'level': 'high', 'day': '2026-01-02', 'price': '1.50', "
        "'code': '12345678-1234-5678-1234-567812345678', 'trip': {'name': 'Ulm', 'start': None}, "
        "'trips': [{'name': 'Bonn', 'start': None}], 'note': None}"
    ) in shown


@pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated")
async def test_a_typed_answer_of_an_adopted_agent_can_be_recorded_and_replayed() -> None:
    """A recording holds JSON, and the replay gives the agent its Python values again."""
    adopted, recorder = adopt(_showing(Order)), Recorder()
    backend = mock_backend({"planner": ORDER, "writer": "ok"})
    result = await adopted.run("go", backend=backend, middleware=[recorder])
    recording = recorder.get_recording()
    assert recording.state_snapshots[-1]["order"]["level"] == "high"
    again = await adopted.run("go", backend=ReplayerBackend(recording))
    assert (again.text, again.state) == (result.text, result.state)
    assert again.state["order"]["level"] is Level.HIGH


SETTING_UP = """\
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent

def set_up(callback_context):
    if "settings" not in callback_context.state:
        callback_context.state["more"] = {"database": "one"}
    callback_context.state["settings"] = callback_context.state["more"]["database"]

class Story(BaseAgent):
    async def _run_async_impl(self, ctx):
        async for event in self.sub_agents[0].run_async(ctx):
            yield event

def anything(query: str, tool_context) -> str:
    \"""Ask anything.\"""
    return str(eval("tool_context"))

teller = LlmAgent(name="teller", instruction="Tell of {topic} in {language}.")
story = Story(name="story", sub_agents=[teller])
asker = LlmAgent(name="asker", instruction="Use {settings}.", before_agent_callback=set_up, tools=[anything])
root_agent = SequentialAgent(name="root", sub_agents=[asker, story])
"""


def test_a_proof_finds_a_state_with_which_the_project_runs(cli: Cli, tmp_path: Path) -> None:
    """A made-up key may stop a callback from its setup; which keys a class needs is known only in a run."""
    (tmp_path / "setting.py").write_text(SETTING_UP)
    done = cli("convert", "setting.py", "--verify")
    assert done.code == 0, done.err
    assert "verified" in done.err
    (tmp_path / "broken.py").write_text(SETTING_UP.replace('["more"]["database"]', '["more"].nothing'))
    done = cli("convert", "broken.py", "--verify")
    assert done.code == 1
    assert "Not verified: the project itself fails in a run with a scripted model: " in done.err
    assert "differs" not in done.err


READING = """\
from google.adk.agents import LlmAgent

async def look(callback_context):
    callback_context.state["length"] = len((await callback_context.load_artifact("book.txt")).text)

root_agent = LlmAgent(
    name="clerk", instruction="Use {artifact.book.txt} {artifact.user:me.md?}.", before_agent_callback=look
)
"""


@pytest.mark.newest  # ADK 1.25 shows a `Part` with all its fields, and an expression its text
def test_a_proof_has_the_files_that_instructions_show(cli: Cli, tmp_path: Path) -> None:
    """Both sides find a text in each file; a file that only the code of the project names is missing."""
    (tmp_path / "reading.py").write_text(READING)
    done = cli("convert", "reading.py", "--verify")
    assert done.code == 0, done.err
    assert "verified" in done.err
    (tmp_path / "missing.py").write_text(READING.replace('("book.txt")', '("other.txt")'))
    done = cli("convert", "missing.py", "--verify")
    assert done.code == 1
    assert "Not verified: the project itself fails in a run with a scripted model: " in done.err


@pytest.mark.newest
async def test_both_sides_of_a_proof_are_shown_the_text_of_a_file() -> None:
    """A difference in what an instruction shows of a file is found."""
    native = LlmAgent(name="clerk", instruction="Use {artifact.book.txt}.")
    assert await run_alike(native, adopt(native), artifacts=["book.txt"]) == []
    fluent = Agent("clerk").instruct("Use (what is in notes.md).")
    (line,) = await run_alike(native, fluent, artifacts=["book.txt"])
    assert "(what is in book.txt)" in line


def test_a_loop_without_an_end_is_not_run(cli: Cli, tmp_path: Path) -> None:
    """A run of it would never end, so the proof says so."""
    made = "from google.adk.agents import LlmAgent, LoopAgent\n"
    made += "root_agent = LoopAgent(name='again', sub_agents=[LlmAgent(name='a', instruction='Say it.')])\n"
    (tmp_path / "endless.py").write_text(made)
    done = cli("convert", "endless.py", "--verify")
    assert done.code == 1
    assert "Not verified: again never ends: it has no limit and no way out." in done.err


GRADED = """\
from google.adk.agents import LlmAgent
from pydantic import BaseModel, Field

class Score(BaseModel):
    grade: str = Field(pattern="PATTERN")

root_agent = LlmAgent(name="grader", instruction="Grade it.", output_schema=Score, output_key="score")
"""


def test_a_proof_makes_up_an_answer_from_a_list_of_texts(cli: Cli, tmp_path: Path) -> None:
    """Of a pattern that lists texts, the first; for another pattern, the line says what is missing."""
    (tmp_path / "graded.py").write_text(GRADED.replace("PATTERN", "^(pass|fail)$"))
    assert cli("convert", "graded.py", "--verify").code == 0
    (tmp_path / "coded.py").write_text(GRADED.replace("PATTERN", "^[A-Z]{3}[0-9]$"))
    done = cli("convert", "coded.py", "--verify")
    assert done.code == 1
    assert "Not verified: The script cannot make up an answer of 'grader': grade is 'text'" in done.err
    assert "responses=" not in done.err


def runs(*events: str, **state: Any) -> run_comparison.Played:
    """One run, whose events say these words."""
    return run_comparison.Played([("clerk", said) for said in events], {}, state, [])


@pytest.mark.parametrize(
    ("one", "again", "other", "alike"),
    [
        (runs("at 9"), runs("at 10"), runs("at 11"), True),
        (runs("at 9. Sort."), runs("at 9:05. Sort."), runs("at 9:05:30. Sort."), True),
        (runs("at 9. Sort."), runs("at 10. Sort."), runs("at 9:05. Sort."), True),
        (runs("at 9. Sort."), runs("at 9:05. Sort."), runs("at 9:05. Drop."), False),
        (runs("a", "b", "z"), runs("a", "z"), runs("a", "b", "b", "z"), True),
        (runs("a", "b", "z"), runs("a", "z"), runs("a", "b", "y"), False),
        (runs("at 9", "z"), runs("at 10", "z"), runs("at 11", "z", "more"), False),
        (runs(id_1=1, kept=2), runs(id_2=1, kept=2), runs(id_3=1, kept=2), True),
        (runs(id_1=1, kept=2), runs(id_2=1, kept=2), runs(id_3=1, kept=3), False),
        (runs(kept=1), runs(kept=2), runs(kept=3, new=1), False),
        (runs(when=None), runs(when="9"), runs(when="10"), True),
        (runs(n=1), runs(n=2), runs(n="text"), False),
    ],
)
def test_a_difference_that_two_native_runs_show_is_none(
    one: run_comparison.Played, again: run_comparison.Played, other: run_comparison.Played, alike: bool
) -> None:
    """Also where the number of words, of events or of keys varies; all around these is compared."""
    assert bool(run_comparison.differences(*run_comparison.steady(one, again, other))) is not alike


CLOCK = """
import itertools
from google.adk.agents import LlmAgent

count = itertools.count()
one = LlmAgent(name="one", description="One.")
two = LlmAgent(name="two", description="Two.")
root_agent = LlmAgent(name="boss", instruction=lambda _: "again " * next(count), sub_agents=[one, two])
"""


def test_what_is_not_compared_is_said_once(cli: Cli, tmp_path: Path) -> None:
    """Although it varies in the runs of each script."""
    (tmp_path / "clock.py").write_text(CLOCK)
    done = cli("convert", "clock.py", "--verify")
    assert "verified" in done.err, done.err
    assert done.err.count("not compared: ") == done.err.count("requests of boss") == 1


agents: Any = adk_agents
"""With classes that ADK calls deprecated."""


class Bill(BaseModel):
    """What is to be paid."""

    total: int
    note: str = ""


@pytest.mark.filterwarnings("ignore:LoopAgent is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(Bill, id="a model"),
        pytest.param(list[Bill], id="models", marks=pytest.mark.newest),  # ADK 1.25 takes models alone
        pytest.param(list[str], id="texts", marks=pytest.mark.newest),
    ],
)
@pytest.mark.parametrize("loops", [False, True], ids=["once", "in a loop"])
async def test_a_typed_answer_beside_tools_is_given_by_a_tool(schema: Any, loops: bool) -> None:
    """The model that stands in calls `set_model_response`, as the real one would, and both sides agree."""
    tools: list[Any] = [look_up, *([adk_exit_loop] if loops else [])]
    agent = LlmAgent(name="a", model="gemini-2.5-flash", output_schema=schema, tools=tools)
    native = agents.LoopAgent(name="loop", max_iterations=3, sub_agents=[agent]) if loops else agent
    expression = adopt(native)
    for what, script in scripts(expression.node):
        played = await run_comparison.played(native, StandingBackend(script), "Hello.", {})
        called = [name for event in played.events for name, _ in event[2]]
        assert called == ["look_up"] * bool(what) + ["set_model_response"] + ["exit_loop"] * loops
        assert await run_alike(native, expression, answers=script, tools="recorded") == []


async def test_a_typed_answer_of_an_agent_without_a_script() -> None:
    """An agent outside the tree answers by the tool as well, with the smallest value."""
    answer = in_form("a", "An answer.")
    agent = LlmAgent(name="a", model="gemini-2.5-flash", output_schema=Bill, tools=[look_up])
    played = await run_comparison.played(agent, StandingBackend({"a": answer}), "Hello.", {})
    ((name, arguments),) = [call for event in played.events for call in event[2]]
    assert (name, arguments["total"]) == ("set_model_response", 0)  # ADK 1.25 declares the note as required
