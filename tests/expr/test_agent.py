from __future__ import annotations

import inspect
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, cast

import pytest
from google.adk.models import Gemini
from google.genai import types
from pydantic import BaseModel

from adk_fluent import A, Agent, C, FanOut, Loop, P, Pipeline, RemoteAgent, S, T
from adk_fluent.errors import ArgumentError, ExpressionError, InvalidNameError
from adk_fluent.expr.preset import AgentCalls
from adk_fluent.expr.terminals import Terminals
from adk_fluent.ir import UNSET, AgentNode
from adk_fluent.ir._generated import AGENT_FIELDS
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.tools.sources import FunctionTool
from tests.limits import LIMIT
from tests.samples import Invoice, Ticket, add, is_done, log_call, look

a, b = Agent("a"), Agent("b")


class Weather:
    """A tool once there is an object of it."""

    def __call__(self, city: str) -> str:
        """Tell the weather of a city."""
        return f"sunny in {city}"


class Plain:
    """Neither called nor a value."""

    def search(self, text: str) -> str:
        """Search for a text."""
        return text


class Holder:
    """Has attributes only, so no JSON."""

    def __init__(self, city: str) -> None:
        self.city = city


class Shown(ABC):
    """Has no objects."""

    @abstractmethod
    def _show(self) -> str: ...


class Foreign:
    """A tool of another framework, which has a name and is not called."""

    __module__ = "langchain_core.tools.structured"
    name = "weather"


class Typed(TypedDict):
    city: str


class Doubled(int):
    """A number that a `__new__` makes."""

    def __new__(cls, value: int) -> Doubled:
        return super().__new__(cls, 2 * value)


class Point(NamedTuple):
    x: int


@dataclass
class Place:
    city: str


untyped: Any = a
untyped_agent: Any = Agent
"""An agent, and its class, as a caller without a type checker sees them."""


def test_a_new_agent_says_only_its_name() -> None:
    """Everything but the name is unset, so ADK's own defaults hold."""
    assert Agent("x").node == AgentNode(name="x")
    assert Agent("x").node.model is UNSET
    assert Agent("x", None) == Agent("x")
    assert Agent("x", "m") == Agent("x").model("m")
    assert Agent(name="x", model="m") == Agent("x", "m")


CALLS: list[tuple[Callable[[Any], Any], str, object]] = [
    (lambda x: x.model("m"), "model", "m"),
    (lambda x: x.instruct("Do {it}."), "instruction", "Do {it}."),
    (lambda x: x.instruct(look), "instruction", look),
    (lambda x: x.instruct(""), "instruction", ""),
    (lambda x: x.global_instruct("Be kind."), "global_instruction", "Be kind."),
    (lambda x: x.static("Rules."), "static_instruction", "Rules."),
    (lambda x: x.static(types.Part(text="x")), "static_instruction", types.Part(text="x")),
    (lambda x: x.describe("Good."), "description", "Good."),
    (lambda x: x.writes("k"), "output_key", "k"),
    (lambda x: x.outputs("user:k"), "output_key", "user:k"),
    (lambda x: x.writes("k").writes("l"), "output_key", "l"),
    (lambda x: x.returns(Invoice), "output_schema", Invoice),
    (lambda x: x @ Invoice, "output_schema", Invoice),
    (lambda x: x.returns(list[Invoice]), "output_schema", list[Invoice]),
    (lambda x: x.accepts(Ticket), "input_schema", Ticket),
    (lambda x: x.produces(Invoice), "produces_type", Invoice),
    (lambda x: x.consumes(Ticket), "consumes_type", Ticket),
    (lambda x: x.tool(add), "tools", (add,)),
    (lambda x: x.tool(add).tools(look, add), "tools", (add, look, add)),
    (lambda x: x.tools(), "tools", ()),
    (lambda x: x.tool(add, require_confirmation=True), "tools", (FunctionTool(add, True),)),
    (lambda x: x.tool(add, require_confirmation=is_done), "tools", (FunctionTool(add, is_done),)),
    (lambda x: x.delegate(a, b), "children", (a.node, b.node)),
    (lambda x: x.delegate(a).sub_agents(b), "children", (a.node, b.node)),
    (lambda x: x.stay(), "disallow_transfer_to_parent", True),
    (lambda x: x.no_peers(), "disallow_transfer_to_peers", True),
    (lambda x: x.before_agent(log_call).before_agent(look), "before_agent_callback", (log_call, look)),
    (lambda x: x.after_model(log_call, look), "after_model_callback", (log_call, look)),
    (lambda x: x.on_tool_error(log_call), "on_tool_error_callback", (log_call,)),
    (
        lambda x: x.generate(temperature=0),
        "generate_content_config",
        GenerateOptions((("temperature", 0),)),
    ),
    (
        lambda x: x.generate(temperature=0, top_k=1).generate(temperature=1),
        "generate_content_config",
        GenerateOptions((("temperature", 1), ("top_k", 1))),
    ),
    (lambda x: x.include_contents("none"), "include_contents", "none"),
    (lambda x: x.node_timeout(3), "timeout", 3),
    (lambda x: x.named("y"), "name", "y"),
]


@pytest.mark.parametrize(("call", "field", "value"), CALLS, ids=[field for _, field, _ in CALLS])
def test_builder_methods_set_one_field(call: Callable[[Any], Agent[Any]], field: str, value: object) -> None:
    """Each method sets its field, gives an Agent, and leaves every other field and the receiver alone."""
    x = Agent("x")
    changed = call(x)
    assert getattr(changed.node, field) == value
    assert type(changed) is Agent
    assert changed.node.replace(**{field: getattr(AgentNode(name="x"), field)}) == Agent("x").node
    assert x.node == AgentNode(name="x")


def test_isolate_is_stay_and_no_peers() -> None:
    """`isolate()` forbids both kinds of transfer and nothing else."""
    assert a.isolate() == a.stay().no_peers() == a.no_peers().stay() != a.stay()


def test_an_instruction_names_what_it_reads() -> None:
    """The checker sees the keys of a template and of the output key."""
    x = Agent("x").instruct("Use {draft}, {user:tone?} and {artifact.style}.").writes("user:final")
    assert x.node.reads_keys == {"draft", "user:tone"}
    assert x.node.writes_keys == {"user:final"}


def test_agents_with_unhashable_values_compare_and_hash() -> None:
    """Models, configurations and contents that have no hash of their own do no harm."""
    config = types.GenerateContentConfig(temperature=0.2, stop_sequences=["x"])

    def make(model: str, role: str) -> Agent[str]:
        static = types.Content(role=role, parts=[types.Part(text="x")])
        return Agent("x", Gemini(model=model)).generate_content_config(config).static(static)

    assert make("m", "user") == make("m", "user")
    assert hash(make("m", "user")) == hash(make("m", "user"))
    assert make("m", "user") != make("n", "user")
    assert make("m", "user") != make("m", "model")
    assert len({make("m", "user"), make("m", "user"), make("n", "user")}) == 2
    assert hash(a.generate(stop_sequences=["x"])) == hash(a.generate(stop_sequences=["x"]))


# --- bad input ------------------------------------------------------------------------------------


class Model(BaseModel):
    x: int = 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: untyped_agent("a", 5), "Agent 'a': the model must be a name or a BaseLlm, not int 5."),
        (lambda: untyped_agent("a", ""), "Agent 'a': the model must be a name or a BaseLlm, not str ''."),
        (lambda: untyped_agent("a", " "), "Agent 'a': the model must be a name or a BaseLlm, not str ' '."),
        (
            lambda: untyped_agent("a", Gemini),
            "Agent 'a': the model must be a name or a BaseLlm, not the class Gemini.",
        ),
        (
            lambda: untyped_agent("a", b),
            "Agent 'a': the model must be a name or a BaseLlm, not the expression Agent('b').",
        ),
        (lambda: untyped.model(None), "Agent 'a': the model must be a name or a BaseLlm, not NoneType None."),
        (
            lambda: untyped.instruct(None),
            "instruct() takes text, a P prompt or a function of the context, not NoneType None.",
        ),
        (
            lambda: untyped.instruct(5),
            "instruct() takes text, a P prompt or a function of the context, not int 5.",
        ),
        (
            lambda: untyped.instruct(Model),
            "instruct() takes text, a P prompt or a function of the context, not the class Model.",
        ),
        (
            lambda: untyped.instruct(b),
            "instruct() takes text, a P prompt or a function of the context, not the expression Agent('b').",
        ),
        (
            lambda: untyped.global_instruct(5),
            "global_instruct() takes text, a P prompt or a function of the context, not int 5.",
        ),
        (lambda: untyped.writes(""), "writes() takes a state key as text, not str ''."),
        (lambda: untyped.writes(5), "writes() takes a state key as text, not int 5."),
        (lambda: untyped.outputs(None), "writes() takes a state key as text, not NoneType None."),
        (lambda: untyped.returns(5), "returns() takes a type such as a pydantic model, not int 5."),
        (
            lambda: untyped.returns(None),
            "returns() takes a type such as a pydantic model, not NoneType None.",
        ),
        (
            lambda: untyped.returns("Invoice"),
            "returns() takes a type such as a pydantic model, not str 'Invoice'.",
        ),
        (
            lambda: untyped.returns(Model()),
            "returns() takes a type such as a pydantic model, not Model Model(x=0).",
        ),
        (lambda: untyped @ 5, "returns() takes a type such as a pydantic model, not int 5."),
        (lambda: untyped.accepts(5), "accepts() takes a type such as a pydantic model, not int 5."),
        (lambda: untyped.produces(5), "produces() takes a type such as a pydantic model, not int 5."),
        (lambda: untyped.consumes(5), "consumes() takes a type such as a pydantic model, not int 5."),
        (lambda: untyped.tool(5), "A tool is a function, a T tool or an ADK tool, not int 5."),
        (lambda: untyped.tool(None), "A tool is a function, a T tool or an ADK tool, not NoneType None."),
        (lambda: untyped.tool("add"), "A tool is a function, a T tool or an ADK tool, not str 'add'."),
        (
            lambda: untyped.tool(Foreign()),
            "A tool is a function, a T tool or an ADK tool, not Foreign 'weather'. "
            "Wrap it in ADK's LangchainTool(...).",
        ),
        (
            lambda: untyped.tool(Weather),
            "A tool is a function, a T tool or an ADK tool, not the class Weather. "
            "Give an object of it: Weather().",
        ),
        (
            lambda: T.fn(cast(Any, Weather)),
            "T.fn() takes a function, not the class Weather. Give an object of it: Weather().",
        ),
        (
            lambda: untyped.tool(Plain),
            "A tool is a function, a T tool or an ADK tool, not the class Plain. A model cannot receive an "
            "object of it. Give its method, Plain(...).search, or make it a dataclass.",
        ),
        (
            lambda: T.fn(Holder),
            "T.fn() takes a function, not the class Holder. A model cannot receive an object of it. Give a "
            "function, or make it a dataclass.",
        ),
        (
            lambda: untyped.tools(add, Shown),
            "A tool is a function, a T tool or an ADK tool, not the class Shown. A model cannot receive an "
            "object of it. Give a function, or make it a dataclass.",
        ),
        (
            lambda: T.timeout(cast(Any, Typed), 5),
            "A tool is a function, a T tool or an ADK tool, not the class Typed. Its parameters cannot "
            "be read. Give a function, or make it a dataclass.",
        ),
        (
            lambda: untyped.tool(FunctionTool),
            "A tool is a function, a T tool or an ADK tool, not the class FunctionTool. "
            "Give an object of it: FunctionTool(...).",
        ),
        (lambda: untyped.tool(int), "A tool is a function, a T tool or an ADK tool, not the class int."),
        (lambda: untyped.tools(add, ["x"]), "A tool is a function, a T tool or an ADK tool, not list ['x']."),
        (
            lambda: untyped.tool(b),
            "Agent('b') is an expression, not a tool. Use T.agent(...) to have it called like a function, or "
            ".delegate(...) to hand the conversation over to it.",
        ),
        (lambda: untyped.delegate(5), "delegate() takes expressions that have a name, not int 5."),
        (lambda: untyped.delegate("b"), "delegate() takes expressions that have a name, not str 'b'."),
        (
            lambda: untyped.delegate(add),
            "delegate() takes expressions that have a name, not the function add.",
        ),
        (
            lambda: untyped.delegate([b, Agent("c")]),
            "delegate() takes expressions that have a name, not list [Agent('b'), Agent('c')]. Unpack the "
            "list: .delegate(*[b, c]).",
        ),
        (
            lambda: untyped.generate(temperature=0, temprature=1),
            "Agent 'a': generate() has no option 'temprature'. Did you mean 'temperature'?",
        ),
        (
            lambda: untyped.generate(maxOutputTokens=1),
            "Agent 'a': generate() has no option 'maxOutputTokens'. Did you mean 'max_output_tokens'?",
        ),
        (
            lambda: untyped.generate(zzz=1),
            "Agent 'a': generate() has no option 'zzz'. One of a newer google-genai goes into "
            ".generate_content_config(GenerateContentConfig(...)).",
        ),
        (
            lambda: untyped.generate(tools=[add]),
            "Agent 'a': generate(tools=) is not for agents; write .tools(...) instead.",
        ),
        (
            lambda: untyped.generate(system_instruction="x"),
            "Agent 'a': generate(system_instruction=) is not for agents; write .instruct(...) instead.",
        ),
        (
            lambda: untyped.generate(response_schema=Model),
            "Agent 'a': generate(response_schema=) is not for agents; write .returns(...) instead.",
        ),
        (lambda: untyped.build(target="wf"), "build(target=) is 'agent' or 'workflow', not 'wf'."),
        (
            lambda: untyped.build(target="Workflow"),
            "build(target=) is 'agent' or 'workflow', not 'Workflow'. Did you mean 'workflow'?",
        ),
        (lambda: untyped.build(target=None), "build(target=) is 'agent' or 'workflow', not None."),
        (lambda: untyped.use(5), "use() takes a Preset, not int 5."),
        (lambda: untyped.use(None), "use() takes a Preset, not NoneType None."),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    """Each is refused at once with one line; an ArgumentError is a TypeError too."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message
    assert isinstance(caught.value, TypeError)
    assert a.node == AgentNode(name="a")


@pytest.mark.parametrize("call", ["tool", "tools"])
def test_a_list_of_tools_is_to_be_unpacked(call: str) -> None:
    """A list where tools are taken one by one is refused with the call that takes them."""
    with pytest.raises(ArgumentError) as caught:
        getattr(untyped, call)([add, look])
    assert str(caught.value).startswith(
        "A tool is a function, a T tool or an ADK tool, not list [<function add at "
    )
    assert str(caught.value).endswith(". Unpack the list: .tools(*[add, look]).")


HOOKS = [
    *("before_agent", "after_agent", "before_model", "after_model", "on_model_error"),
    *("before_tool", "after_tool", "on_tool_error"),
]


def test_every_callback_of_adk_is_among_the_hooks() -> None:
    """The hooks below are all the fields of callbacks that the installed ADK has."""
    assert {f"{name}_callback" for name in HOOKS} == {f for f in AGENT_FIELDS if f.endswith("_callback")}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_callback_is_a_function(hook: str) -> None:
    """A callback must be a function: other values are refused at once, and a list must be unpacked."""
    add_to: Any = getattr(untyped, hook)
    for wrong, told in (
        ("x", "str 'x'"),
        (None, "NoneType None"),
        (Model, "the class Model"),
        (S.set(x=1), "the expression Transform(set)"),
    ):
        with pytest.raises(ArgumentError) as caught:
            add_to(look, wrong)
        assert str(caught.value) == f"{hook}() takes functions, not {told}."
    with pytest.raises(ArgumentError) as caught:
        add_to([look, log_call])
    assert str(caught.value).endswith(f". Unpack the list: .{hook}(*[look, log_call]).")
    assert getattr(add_to(look, log_call).node, f"{hook}_callback") == (look, log_call)


@pytest.mark.parametrize("kind", [Doubled, Point, Place, Ticket])
def test_a_class_that_makes_values_is_a_tool(kind: type[object]) -> None:
    """A dataclass, a model, a named tuple or a class with a `__new__` is called like a function."""
    assert Agent("x").tool(kind).node.tools == (kind,)
    assert T.fn(kind).each


def test_composites_refuse_such_callbacks_too() -> None:
    """Pipelines, fan-outs and loops have the callbacks of any agent, and the same care."""
    for composite in (a >> b, a | b, a * 2):
        made: Any = composite
        with pytest.raises(ArgumentError, match=r"^before_agent\(\) takes functions, not str 'x'\.$"):
            made.before_agent("x")


WRONG = """
import sys
from adk_fluent import Agent
from adk_fluent.errors import ADKFluentError
a = Agent("a")
for call in (
    lambda: a.generate(temprature=1), lambda: a.generate(tools=[]), lambda: a.before_model("x"),
    lambda: a.tools([print]), lambda: a.build(target="wf"), lambda: a.generate(temperature=1, top_k=2),
):
    try:
        call()
    except ADKFluentError as error:
        print(error)
print([name for name in sys.modules if name.startswith(("google.adk", "google.genai"))])
"""


def test_nothing_is_imported_of_adk_to_refuse_a_call() -> None:
    """Neither a right nor a wrong call of a builder method loads google.adk, or google.genai."""
    done = subprocess.run(
        [sys.executable, "-c", WRONG], capture_output=True, text=True, check=True, timeout=LIMIT
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert len(done.stdout.splitlines()) == 6


def test_confirmation_of_what_is_no_function() -> None:
    """Confirmation may be asked of any tool."""
    assert Agent("a").tool(T.mock("x"), require_confirmation=True).node.tools == (T.confirm(T.mock("x")),)
    asked = Agent("a").tool(T.mock("x") | T.mock("y"), require_confirmation=is_done)
    assert asked.node.tools == (T.confirm(T.mock("x"), is_done), T.confirm(T.mock("y"), is_done))


def test_delegating_without_agents_is_refused() -> None:
    """`delegate()` without agents names the agent it was called on."""
    with pytest.raises(ExpressionError) as caught:
        a.delegate()
    assert str(caught.value) == "Agent 'a': delegate() needs at least one agent."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "my agent",
            "'my agent' cannot name this agent: ADK wants letters, digits and underscores, not starting with "
            "a digit. Try 'my_agent'.",
        ),
        ("user", "'user' cannot name this agent: ADK keeps it for the person. Try 'user_agent'."),
        (None, "The name of this agent must be text, not NoneType: None."),
        (5, "The name of this agent must be text, not int: 5."),
    ],
)
def test_bad_names(name: Any, message: str) -> None:
    """A name that ADK would reject is refused at construction and when renaming, with a suggestion."""
    for make in (lambda: Agent(name), lambda: a.named(name)):
        with pytest.raises(InvalidNameError) as caught:
            make()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("instuct", " Did you mean 'instruct'?"),
        ("instruction", " Did you mean 'instruct'?"),
        ("write", " Did you mean 'writes'?"),
        ("output", " Did you mean 'outputs'?"),
        ("sub_agent", " Did you mean 'sub_agents'?"),
        ("runn", " Did you mean 'run'?"),
        ("zzz", ""),
    ],
)
def test_a_misspelt_method_names_the_nearest(name: str, nearest: str) -> None:
    """An unknown method is an AttributeError that names the nearest one, so `hasattr` works as well."""
    with pytest.raises(AttributeError) as caught:
        getattr(a, name)
    assert str(caught.value) == f"Agent has no method {name!r}.{nearest}"
    assert not hasattr(a, name)


def test_values_of_plain_adk_fields_are_checked_when_compiled() -> None:
    """A wrong value of a plain ADK field gives one line with agent and field."""
    from adk_fluent.errors import CompileError

    with pytest.raises(CompileError) as caught:
        untyped.describe(5).build()
    assert str(caught.value) == "'a': ADK refuses description: Input should be a valid string"


def test_a_preset_takes_every_builder_method() -> None:
    """The type of a preset lists exactly the builder methods, which return an agent."""
    wrappers = {"from_node", "named", "proceed_if", "tap", "timeout", "until", "use"}
    inherited = set(dir(Terminals)) | wrappers | {"name", "node", "to_ir", "check"}
    builders = {name for name in dir(Agent) if not name.startswith("_")} - inherited
    assert builders == AgentCalls.__optional_keys__


def twice(text: str) -> str:
    """Say it twice."""
    return text * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: cast(Any, Agent)(name="a", instruction="Say hello."),
            'Agent(\'a\') takes a name and a model; methods set the rest: Agent("a").instruct("Say hello.")',
        ),
        (
            lambda: cast(Any, Agent)(
                name="a",
                model="gemini-2.5-flash",
                description="A clerk.",
                instruction="Help.",
                tools=[twice],
                sub_agents=[Agent("b")],
                output_key="x",
                before_model_callback=twice,
                disallow_transfer_to_parent=True,
                disallow_transfer_to_peers=False,
                planner=None,
            ),
            "Agent('a') takes a name and a model; methods set the rest: "
            'Agent("a", "gemini-2.5-flash").describe("A clerk.").instruct("Help.").tools(twice)'
            '.delegate(b).writes("x").before_model(twice).stay()',
        ),
        (
            lambda: cast(Any, Agent)("a", instructions="Hi."),
            "Agent('a') has no 'instructions'. Did you mean 'instruction'?",
        ),
        (
            lambda: cast(Any, Agent)("a", "m", "Say hi."),
            "Agent('a') takes a name and a model; set the rest with methods, such as .instruct('Say hi.').",
        ),
        (
            lambda: cast(Any, Pipeline)(name="p", sub_agents=[Agent("a"), Agent("b")]),
            "Pipeline() takes each step as an argument, and name; it has no 'sub_agents'. "
            "Give each agent as an argument: Pipeline(a, b).",
        ),
        (
            lambda: cast(Any, Loop)(Agent("a"), max_iteration=3),
            "Loop() takes each step as an argument, and max_iterations, name; it has no 'max_iteration'. "
            "Did you mean 'max_iterations'?",
        ),
        (
            lambda: cast(Any, FanOut)(Agent("a"), description="Both."),
            "FanOut() takes each branch as an argument, and name, merge; it has no 'description'. "
            'Write FanOut(...).describe("Both.").',
        ),
    ],
)
def test_arguments_of_adk_are_answered_with_the_fluent_form(make: Callable[[], object], message: str) -> None:
    """The error for an argument of ADK's class names the fluent method."""
    with pytest.raises(ArgumentError) as raised:
        make()
    assert str(raised.value) == message


SYNONYMS: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (a.outputs, a.writes, ("x",)),
    (RemoteAgent("a", endpoint="https://x.example").outputs, a.writes, ()),
    (a.sub_agents, a.delegate, (b,)),
    (a.to_agent, a.build, ()),
    (C.last_n_turns, C.window, (3,)),
    (C.capture, S.capture, ("x",)),
]


@pytest.mark.parametrize(("other", "preferred", "arguments"), SYNONYMS)
def test_a_synonym_says_which_name_to_prefer(other: Any, preferred: Any, arguments: tuple[Any, ...]) -> None:
    """A synonym does the same, and its docstring names the method to prefer."""
    assert re.search(rf"Prefer `(S\.)?{preferred.__name__}(\(\))?`", inspect.getdoc(other) or "")
    if arguments:
        made, same = other(*arguments), preferred(*arguments)
        assert getattr(made, "node", made) == getattr(same, "node", same)


@pytest.mark.parametrize("owner", [Agent, RemoteAgent, Pipeline, S, C, P, T, A])
def test_the_first_line_of_help_stands_alone(owner: type) -> None:
    """The first line of a method's help names its subject: an agent, an expression, a key."""
    vague = re.compile(r"\b(this says|in here|that it \w+s a|The same as)\b")
    lines = {name: (inspect.getdoc(getattr(owner, name)) or "").partition("\n")[0] for name in dir(owner)}
    assert {name: line for name, line in lines.items() if name[0] != "_" and vague.search(line)} == {}
