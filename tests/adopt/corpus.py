"""Small projects in plain ADK, with planted faults and without, and what a check must find in each."""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = """\
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions
from google.adk.tools import FunctionTool, exit_loop
from google.adk.tools.agent_tool import AgentTool
from pydantic import BaseModel

"""


@dataclass(frozen=True)
class Project:
    """One project.

    Attributes:
        name: what is special about it.
        source: its `agent.py`, below `PRELUDE`.
        errors: `agent:key` of each error.
        warnings: `agent:key` of each warning.
        unknown: the agents of which the report says that something is unknown.
    """

    name: str
    source: str
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def _sequence(*agents: str) -> str:
    return f"root_agent = SequentialAgent(name='root', sub_agents=[{', '.join(agents)}])\n"


def _agent(name: str, instruction: str = "", key: str = "", more: str = "") -> str:
    shown = [f"name={name!r}", f"instruction={instruction!r}"] if instruction else [f"name={name!r}"]
    shown += [f"output_key={key!r}"] if key else []
    return f"LlmAgent({', '.join([*shown, *([more] if more else [])])})"


def _root(*fields: str, more: str = "") -> str:
    return f"root_agent = {_agent(*fields[:3], more=more or ''.join(fields[3:]))}\n"


ALONE = "LlmAgent(name='one', disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)"
WRITER, READER = _agent("writer", key="draft"), _agent("reader", "Use {draft}.")
SAVE = """
def save(order: str, tool_context) -> str:
    tool_context.state["order"] = order
    return "saved"

"""
STAMPS = """
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin

class Stamp(BasePlugin):
    async def before_agent_callback(self, *, agent, callback_context):
        {}

    async def after_model_callback(self, *, callback_context, llm_response):
        {}

"""
HIDES = """
class Database:
    pass

def query(sql: str, database: Database) -> str:
    return sql

def search(words: str, database: Database) -> str:
    return words

class Query(FunctionTool):
    def __init__(self):
        super().__init__(query)
        self._ignore_params.append("database")

    async def run_async(self, *, args, tool_context):
        return self.func(**args, database=Database())

class Search(FunctionTool):
    def _get_declaration(self):
        return None

root_agent = LlmAgent(name="a", tools=[Query(), Search(search)])
"""
STOP = "Stop(name='stop')"
OWN = """
class Own(BaseAgent):
    async def _run_async_impl(self, ctx):
        topic = ctx.session.state.get("topic")
        yield Event(author=self.name, actions=EventActions(state_delta={"summary": topic}))

"""

PROJECTS = (
    # --- keys that nobody writes ---
    Project("one agent that reads nothing", f"root_agent = {_agent('a', 'Hi.')}\n"),
    Project(
        "one agent that reads what nobody writes", f"root_agent = {_agent('a', '{nobody}')}\n", ("a:nobody",)
    ),
    Project("a placeholder that may be missing", f"root_agent = {_agent('a', '{nobody?}')}\n"),
    Project("a scoped key, which another session may have", f"root_agent = {_agent('a', '{user:name}')}\n"),
    Project(
        "JSON in an instruction",
        _root("a", 'Answer as {"x": 1}.'),
    ),
    Project("a writer and its reader", _sequence(WRITER, READER)),
    Project("a reader before its writer", _sequence(READER, WRITER), ("reader:draft",)),
    Project("a misspelt key", _sequence(WRITER, _agent("reader", "{drafft}")), ("reader:drafft",)),
    Project(
        "a key of another scope", _sequence(WRITER, _agent("reader", "{user:draft}")), ("reader:user:draft",)
    ),
    Project(
        "a global instruction that reads",
        _root("a", "x", more="global_instruction='For {tier}.'"),
        ("a:tier",),
    ),
    Project(
        "an f-string that forgot its braces",
        f"topic = 'tea'\nroot_agent = {_agent('a', 'About {topic}.')}\n",
        ("a:topic",),
    ),
    # --- parallel ---
    Project(
        "branches and who joins them",
        f"both = ParallelAgent(name='both', sub_agents=[{_agent('l', 'x', 'left')}, "
        f"{_agent('r', 'x', 'right')}])\n" + _sequence("both", _agent("join", "{left} {right}")),
    ),
    Project(
        "a branch that reads its sibling",
        f"both = ParallelAgent(name='both', sub_agents=[{_agent('l', 'x', 'left')}, "
        f"{_agent('r', '{left}')}])\n" + _sequence("both"),
        warnings=("r:left",),
    ),
    Project(
        "two branches that write one key",
        f"both = ParallelAgent(name='both', sub_agents=[{_agent('l', 'x', 'k')}, {_agent('r', 'x', 'k')}])\n"
        + _sequence("both", _agent("join", "{k}")),
        warnings=("r:k",),
    ),
    # --- loops ---
    Project(
        "a loop that reads what it wrote the round before",
        f"loop = LoopAgent(name='loop', max_iterations=3, sub_agents=[{_agent('w', '{note?}', 'draft')}, "
        f"{_agent('c', '{draft}', 'note')}])\n" + _sequence("loop"),
    ),
    Project(
        "a loop whose first round lacks a key",
        f"loop = LoopAgent(name='loop', max_iterations=3, sub_agents=[{_agent('w', '{note}', 'draft')}, "
        f"{_agent('c', '{draft}', 'note')}])\n" + _sequence("loop"),
        warnings=("w:note",),
    ),
    Project(
        "a loop that is left by a tool",
        f"loop = LoopAgent(name='loop', sub_agents=[{_agent('w', 'x', 'draft')}, "
        f"{_agent('c', '{draft}', more='tools=[exit_loop]')}])\n" + _sequence("loop", READER),
    ),
    Project(
        "what comes after the one that may leave the loop",
        "loop = LoopAgent(name='loop', max_iterations=3, sub_agents=["
        f"{_agent('c', 'x', more='tools=[exit_loop]')}, {WRITER}])\n" + _sequence("loop", READER),
        warnings=("reader:draft",),
    ),
    Project(
        "a loop without a limit or a way out",
        f"root_agent = LoopAgent(name='loop', sub_agents=[{WRITER}])\n",
        warnings=("loop:loop-runs-to-limit",),
    ),
    Project(
        "a loop without a limit whose tool ends nothing",
        "def add(a: int) -> int:\n    return a\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{_agent('c', more='tools=[add]')}])\n",
        warnings=("loop:loop-runs-to-limit",),
    ),
    Project(
        "a loop that a callback leaves",
        "def stop(callback_context):\n    callback_context.actions.escalate = True\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{_agent('c', more='after_agent_callback=stop')}])\n",
    ),
    Project(
        "a loop that a callback leaves by the event's actions",
        "def stop(callback_context, llm_response):\n    callback_context._event_actions.escalate = True\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{_agent('c', more='after_model_callback=stop')}])\n",
        unknown=("c",),
    ),
    Project(
        "a loop that a callback of its tools leaves",
        "def add(a: int) -> int:\n    return a\n\ndef stop(tool, args, tool_context, tool_response):\n    tool_context.actions.escalate = True\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{_agent('c', more='tools=[add], after_tool_callback=stop')}])\n",
    ),
    Project(
        "a loop that a callback ends with the run",
        "def stop(callback_context):\n    callback_context._invocation_context.end_invocation = True\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{_agent('c', more='before_agent_callback=stop')}])\n",
        unknown=("c",),
    ),
    Project(
        "a loop that an agent of its own class leaves",
        "class Stop(BaseAgent):\n    async def _run_async_impl(self, ctx):\n        yield Event(author=self.name, actions=EventActions(escalate=True))\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{STOP}])\n",
        unknown=("stop",),
    ),
    Project(
        "a loop with an agent of its own class that leaves nothing",
        "class Stop(BaseAgent):\n    async def _run_async_impl(self, ctx):\n        yield Event(author=self.name)\n\n"
        f"root_agent = LoopAgent(name='loop', sub_agents=[{STOP}])\n",
        warnings=("loop:loop-runs-to-limit",),
        unknown=("stop",),
    ),
    Project(
        "a loop that a plugin of the app leaves",
        "from google.adk.apps.app import App\nfrom google.adk.plugins.base_plugin import BasePlugin\n\n"
        "class Stop(BasePlugin):\n"
        "    async def after_model_callback(self, *, callback_context, llm_response):\n"
        "        callback_context.actions.escalate = True\n\n"
        f"loop = LoopAgent(name='loop', sub_agents=[{WRITER}])\n"
        "root_agent = App(name='app', root_agent=loop, plugins=[Stop('stop')])\n",
    ),
    # --- delegation ---
    Project("a coordinator", f"root_agent = {_agent('boss', 'x', more=f'sub_agents=[{WRITER}]')}\n"),
    Project(
        "a specialist that reads what nobody writes",
        _root("boss", "x", more=f"sub_agents=[{_agent('one', '{nobody}')}]"),
        ("one:nobody",),
    ),
    Project(
        "what only a specialist writes",
        f"boss = {_agent('boss', 'x', more=f'sub_agents=[{WRITER}]')}\n" + _sequence("boss", READER),
        warnings=("reader:draft",),
    ),
    Project(
        "a coordinator that reads what nobody writes, and a specialist with code that nobody can read",
        "def work(tool_context) -> str:\n    helper(tool_context)\n    return ''\n\n"
        + _root("boss", "{nobody}", more=f"sub_agents=[{_agent('one', 'x', more='tools=[work]')}]"),
        ("boss:nobody",),
        unknown=("one",),
    ),
    Project(
        "specialists without ways back",
        _root("boss", "x", "k", f"sub_agents=[{ALONE}]"),
    ),
    # --- tools ---
    Project(
        "a tool without state",
        "def add(a: int, b: int) -> int:\n    return a + b\n\n"
        + _sequence(_agent("a", "x", more="tools=[add]"), _agent("b", "{nobody}")),
        ("b:nobody",),
    ),
    Project(
        "what a tool may write",
        SAVE + _sequence(_agent("a", "x", more="tools=[save]"), _agent("b", "{order}")),
        warnings=("b:order",),
    ),
    Project(
        "a key that no tool writes either",
        SAVE + _sequence(_agent("a", "x", more="tools=[save]"), _agent("b", "{odrer}")),
        ("b:odrer",),
    ),
    Project(
        "a wrapped tool",
        SAVE + _sequence(_agent("a", "x", more="tools=[FunctionTool(save)]"), _agent("b", "{order?}")),
    ),
    Project(
        "a tool that reads what nobody writes",
        "def look(tool_context) -> str:\n    return tool_context.state['nobody']\n\n"
        f"root_agent = {_agent('a', 'x', more='tools=[look]')}\n",
        warnings=("a:nobody",),
    ),
    Project(
        "a tool that hands its context to a helper",
        "def helper(context):\n    context.state['x'] = 1\n\ndef work(tool_context) -> str:\n    helper(tool_context)\n    return ''\n\n"
        + _sequence(_agent("a", "x", more="tools=[work]"), _agent("b", "{x}")),
        warnings=("b:x",),
    ),
    Project(
        "a tool with keys from a constant",
        "KEY = 'order'\n\ndef save(order: str, tool_context) -> str:\n    tool_context.state[KEY] = order\n    return ''\n\n"
        + _sequence(_agent("a", "x", more="tools=[save]"), _agent("b", "{order} {nobody}")),
        ("b:nobody",),
        ("b:order",),
    ),
    Project(
        "a tool with keys that are computed",
        "def save(name: str, tool_context) -> str:\n    tool_context.state[name] = 1\n    return ''\n\n"
        + _sequence(_agent("a", "x", more="tools=[save]"), _agent("b", "{any}")),
        unknown=("a",),
    ),
    Project(
        "a tool that updates several keys",
        "def save(tool_context) -> str:\n    state = tool_context.state\n    state.update({'one': 1, 'two': 2})\n    return ''\n\n"
        + _sequence(_agent("a", "x", more="tools=[save]"), _agent("b", "{one} {two} {three}")),
        ("b:three",),
        ("b:one", "b:two"),
    ),
    Project(
        "an agent in a tool",
        f"inner = {_agent('inner', 'x', 'found')}\n"
        + _sequence(_agent("a", "x", more="tools=[AgentTool(agent=inner)]"), _agent("b", "{found} {nobody}")),
        ("b:nobody",),
        ("b:found",),
    ),
    Project(
        "an agent in a tool that reads what nobody writes",
        f"inner = {_agent('inner', '{nobody}')}\nroot_agent = {_agent('a', 'x', more='tools=[AgentTool(agent=inner)]')}\n",
        ("a:nobody",),
    ),
    # --- callbacks and providers ---
    Project(
        "a callback that fills a key",
        "def fill(callback_context):\n    callback_context.state['tier'] = 'gold'\n\n"
        f"root_agent = {_agent('a', '{tier}', more='before_agent_callback=fill')}\n",
    ),
    Project(
        "a lambda that fills a key",
        f"fill = lambda callback_context: callback_context.state.update(tier='gold')\n"
        f"root_agent = {_agent('a', '{tier} {tear}', more='before_agent_callback=fill')}\n",
        ("a:tear",),
    ),
    Project(
        "a callback that fills another key",
        "def fill(callback_context):\n    callback_context.state['tear'] = 'gold'\n\n"
        f"root_agent = {_agent('a', '{tier}', more='before_agent_callback=fill')}\n",
        ("a:tier",),
    ),
    Project(
        "a callback that only counts",
        "def count(callback_context, llm_request):\n    n = callback_context.state.get('n', 0)\n    callback_context.state['n'] = n + 1\n\n"
        + _sequence(_agent("a", "x", more="before_model_callback=count"), _agent("b", "{nobody}")),
        ("b:nobody",),
    ),
    Project(
        "a callback after the answer reads the answer",
        "def note(callback_context):\n    callback_context.state['size'] = len(callback_context.state['draft'])\n\n"
        + _sequence(
            _agent("a", "x", "draft", more="after_agent_callback=note"), _agent("b", "{draft} {size}")
        ),
    ),
    Project(
        "a callback before the answer reads the answer",
        "def note(callback_context):\n    callback_context.state['size'] = len(callback_context.state['draft'])\n\n"
        f"root_agent = {_agent('a', 'x', 'draft', more='before_agent_callback=note, after_agent_callback=note')}\n",
        warnings=("a:draft",),
    ),
    Project(
        "a provider that reads what nobody writes",
        "def say(context):\n    return f\"For {context.state['tier']}\"\n\nroot_agent = LlmAgent(name='a', instruction=say)\n",
        warnings=("a:tier",),
    ),
    Project(
        "a provider that minds",
        "def say(context):\n    return context.state.get('tier', 'all')\n\nroot_agent = LlmAgent(name='a', instruction=say)\n",
    ),
    Project(
        "a callable object as a callback",
        "class Fill:\n    def __call__(self, callback_context):\n        callback_context.state['tier'] = 1\n\n"
        f"root_agent = {_agent('a', '{tier}', more='before_agent_callback=Fill()')}\n",
    ),
    # --- classes of one's own ---
    Project(
        "an agent of one's own",
        OWN + _sequence("Own(name='own')", _agent("b", "{summary}")),
        unknown=("own",),
    ),
    Project(
        "an agent of one's own, and a key from elsewhere",
        OWN + _sequence("Own(name='own')", _agent("b", "{nobody}")),
        unknown=("own",),
    ),
    Project(
        "an agent of one's own after the fault",
        OWN + _sequence(_agent("b", "{nobody}"), "Own(name='own')"),
        ("b:nobody",),
        unknown=("own",),
    ),
    Project(
        "what an agent of one's own always writes",
        OWN + _sequence("Own(name='own')", _agent("b", "{summary}")),
        unknown=("own",),
    ),
    Project(
        "a subclass with a field of its own",
        "class Polite(LlmAgent):\n    tone: str = 'kind'\n\n"
        + _sequence("Polite(name='p', output_key='draft')", READER, _agent("b", "{nobody}")),
        ("b:nobody",),
    ),
    Project(
        "a subclass of a composite with nothing of its own",
        "class Team(SequentialAgent):\n    '''A team.'''\n\n"
        f"root_agent = Team(name='team', sub_agents=[{READER}])\n",
        ("reader:draft",),
    ),
    Project(
        "plugins of the app that write",
        STAMPS.format("callback_context.state['stamp'] = 'now'", "callback_context.state['seen'] = 1")
        + f"a, b = {_agent('a', '{stamp}')}, {_agent('b', '{stamp} {seen} {nobody}')}\n"
        + "root_agent = App(name='app', root_agent=SequentialAgent(name='s', sub_agents=[a, b]), plugins=[Stamp('s')])\n",
        ("b:nobody",),
        ("b:seen",),
    ),
    Project(
        "a plugin of the app that writes a key of its own choice",
        STAMPS.format("callback_context.state[callback_context.invocation_id] = 'now'", "pass")
        + f"root_agent = App(name='app', root_agent={_agent('a', '{stamp}')}, plugins=[Stamp('stamp')])\n",
        unknown=("a",),
    ),
    # --- shapes of answers ---
    Project(
        "a structured answer under its key",
        "class Plan(BaseModel):\n    steps: list[str]\n\n"
        + _sequence("LlmAgent(name='p', output_schema=Plan, output_key='plan')", _agent("b", "{plan}")),
    ),
    Project(
        "a field of a structured answer",
        "class Plan(BaseModel):\n    steps: list[str]\n\n"
        + _sequence("LlmAgent(name='p', output_schema=Plan, output_key='plan')", _agent("b", "{steps}")),
        ("b:steps",),
    ),
    Project(
        "one that sees only the last turn",
        _sequence(WRITER, _agent("reader", "{draft}", more="include_contents='none'")),
    ),
    Project(
        "nested composites",
        f"inner = SequentialAgent(name='inner', sub_agents=[{WRITER}])\n" + _sequence("inner", READER),
    ),
    # --- later turns of a session ---
    Project(
        "a specialist that reads what a step after its coordinator writes",
        f"boss = {_agent('boss', 'x', more=f'sub_agents=[{READER}]')}\n" + _sequence("boss", WRITER),
        warnings=("reader:draft",),
    ),
    Project(
        "a specialist that reads what a tool of a later step writes",
        SAVE
        + f"boss = {_agent('boss', 'x', more='sub_agents=[' + _agent('one', '{order}') + ']')}\n"
        + _sequence("boss", _agent("b", "x", more="tools=[save]")),
        warnings=("one:order",),
    ),
    Project(
        "an agent that a callback skips until its key is there",
        "def skip(callback_context):\n    if 'draft' not in callback_context.state:\n"
        "        return types.Content(parts=[types.Part(text='later')])\n\n"
        + _sequence(_agent("r", "{draft}", more="before_agent_callback=skip"), WRITER),
        warnings=("r:draft",),
    ),
    Project(
        "an agent with a callback that skips nothing",
        "def note(callback_context):\n    print('x')\n\n"
        + _sequence(_agent("r", "{draft}", more="before_agent_callback=note"), WRITER),
        ("r:draft",),
    ),
    Project("tools whose classes fill a parameter in", HIDES),
)
