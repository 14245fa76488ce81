"""Operations of `T` as values: they compare, print, are stored, and name the keys that they touch."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path
from typing import Any, cast

import pytest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.google_search_tool import GoogleSearchTool

from adk_fluent import Agent, T
from adk_fluent.backends.adk.tools.making import MAKERS
from adk_fluent.contracts import Severity, check_all
from adk_fluent.errors import ADKFluentError, ArgumentError, CodecError, CompileError, UnknownMethodError
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.ir.tools import confirms
from adk_fluent.tools import MODULES, OPERATIONS
from adk_fluent.tools.spec import Tool
from tests.tools.every import EVERY, PETS, RESEARCH, TOKEN, Box, half, is_large, measure, shout, weather

every_operation = pytest.mark.parametrize("op", sorted(OPERATIONS))


def classes() -> list[type[Tool]]:
    """The classes that say that they are an operation."""
    return [
        value
        for module in MODULES
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Tool)
        and value.__module__ == module.__name__
        and value.op
    ]


def test_every_operation_is_listed() -> None:
    """Each class is an operation of its name, has an example here, a factory, and something that makes it."""
    assert {cls.op: cls for cls in classes()} == dict(OPERATIONS)
    assert {cls.__module__ for cls in OPERATIONS.values()} == {module.__name__ for module in MODULES}
    assert set(OPERATIONS) == set(EVERY)
    assert set(MAKERS) == set(OPERATIONS.values())
    assert set(OPERATIONS) - {"together"} == {name for name in vars(T) if not name.startswith("_")}


@every_operation
def test_a_tool_operation_is_a_value(op: str) -> None:
    """A tool operation is equal to its copy, with the same hash, and differs from all others."""
    tool = EVERY[op]
    same = tool.replace()
    assert same == tool
    assert hash(same) == hash(tool)
    assert [other for other in EVERY.values() if other == tool] == [tool]


@every_operation
def test_a_tool_operation_prints_as_its_factory_call(op: str) -> None:
    """A tool operation's text begins with its factory, and its agent can be explained and drawn."""
    tool = EVERY[op]
    assert op == "together" or repr(tool).startswith(f"T.{op}(")
    agent = Agent("a").tools(tool)
    assert str(agent.explain())
    assert agent.visualize()


@every_operation
def test_a_tool_operation_can_be_stored(op: str) -> None:
    """A tool operation survives JSON with its hash; a live object is refused."""
    node = Agent("a").tools(EVERY[op]).node
    assert ir_hash(node) == ir_hash(Agent("a").tools(EVERY[op]).node)
    if op == "toolset":
        with pytest.raises(CodecError, match=r"'a', field tools.*Box"):
            to_dict(node)
        return
    stored = json.loads(json.dumps(to_dict(node)))
    assert from_dict(stored) == node
    assert ir_hash(from_dict(stored)) == ir_hash(node)


@every_operation
def test_a_tool_operation_becomes_a_tool(op: str, tmp_path: Path) -> None:
    """A tool operation becomes a tool of ADK, or building names it with the reason."""
    agent = Agent("a").tools(EVERY[op])
    if op == "skill":
        with pytest.raises(CompileError, match=r"'a'.*T.skill\('skills/refunds'\)"):
            agent.build()
        return
    built: Any = agent.build()
    assert len(built.tools) == len(agent.node.tools)


SHOWN = {
    "T.fn(weather)": T.fn(weather),
    "T.fn(weather, require_confirmation=True)": T.fn(weather, confirm=True),
    "T.agent(research)": T.agent(RESEARCH),
    "T.toolset(Box)": T.toolset(Box()),
    "T.google_search()": T.google_search(),
    "T.mcp(http://127.0.0.1:1/mcp)": T.mcp("http://127.0.0.1:1/mcp"),
    "T.openapi(Pets, auth=***)": T.openapi(PETS, auth=TOKEN),
    "T.mock('news', returns=['none'])": T.mock("news", returns=["none"]),
    "T.timeout(T.retry(weather, attempts=2), seconds=5)": T.timeout(T.retry(weather, 2), 5),
    "T.confirm(half, when=is_large)": T.confirm(half, is_large),
    "T.transform(weather, post=shout)": T.transform(weather, post=shout),
    "T.cache(T.fn(weather)) | T.cache(half)": T.cache(T.fn(weather) | half),
    "T.fn(weather) | half | T.url_context()": T.fn(weather) | half | T.url_context(),
}


@pytest.mark.parametrize(("text", "tool"), SHOWN.items(), ids=SHOWN)
def test_how_it_is_shown(text: str, tool: Tool) -> None:
    """A tool operation is shown as it is written."""
    assert repr(tool) == text


def test_several_are_one_by_one_in_an_agent() -> None:
    """An agent has the tools of a `|` one by one, in order, beside others."""
    agent = Agent("a").tools(T.fn(weather) | half, T.url_context()).tool(T.mock("x") | T.mock("y"))
    assert agent.node.tools == (T.fn(weather), half, T.url_context(), T.mock("x"), T.mock("y"))
    assert (half | T.fn(weather)).parts == (half, T.fn(weather))


def test_a_secret_is_neither_shown_nor_stored() -> None:
    """Credentials of a service, and headers of a connection, appear in no text and no stored graph."""

    class Connection:
        url = "http://127.0.0.1:1/mcp"
        headers = {"Authorization": "s3cret"}  # noqa: RUF012  # as ADK's own

    for tool in (T.openapi(PETS, auth=TOKEN), T.mcp(Connection())):
        agent = Agent("a").tools(tool)
        assert "s3cret" not in f"{tool!r} {agent.explain()} {agent.node!r}"
        with pytest.raises(CodecError, match="a Credential cannot be stored") as error:
            to_dict(agent.node)
        assert "s3cret" not in str(error.value)
        assert ir_hash(agent.node)
    assert T.openapi(PETS, auth=TOKEN) == T.openapi(PETS, auth=TOKEN) != T.openapi(PETS)


def test_a_tool_of_importable_functions_pickles() -> None:
    """A tool of importable functions can be pickled."""
    assert pickle.loads(pickle.dumps(EVERY["cache"])) == EVERY["cache"]


# --- what is refused ------------------------------------------------------------------------------

untyped: Any = T
MISTAKES: dict[str, Any] = {
    "takes a function, not the expression": lambda: untyped.fn(RESEARCH),
    r"T.fn\(\) takes a function, not Box .*T.toolset": lambda: untyped.fn(Box()),
    r"write reads=\['a'\]": lambda: untyped.fn(weather, reads="a"),
    r"T.agent\(\) takes an expression": lambda: untyped.agent(weather),
    "has no name that a model could call": lambda: untyped.agent(Agent("a") >> Agent("b")),
    "takes a toolset": lambda: untyped.toolset(weather),
    "either data_store_id= or search_engine_id=": lambda: untyped.vertex_ai_search(),
    "takes the URL of a server": lambda: untyped.mcp("localhost:80"),
    "the URL of a server .*, not dict": lambda: untyped.mcp({"url": "x"}),
    r"tool_filter=\) takes the names of tools, not str": lambda: untyped.mcp("http://h", tool_filter="a"),
    r"tool_filter=\) takes the names of tools, not \(\)": lambda: untyped.openapi(PETS, tool_filter=[]),
    r"prefix=\) takes an identifier": lambda: untyped.mcp("http://h", prefix="a b"),
    "takes a specification as a dict, as text or as a Path": lambda: untyped.openapi(7),
    "fetches nothing": lambda: untyped.openapi("https://h/openapi.json"),
    r"auth=\) takes an AuthConfig": lambda: untyped.openapi(PETS, auth="token"),
    "takes the path of a folder": lambda: untyped.skill(""),
    "a model calls a tool by an identifier": lambda: untyped.mock("two words"),
    "returns= or side_effect=, not both": lambda: untyped.mock("a", returns=1, side_effect=weather),
    "has no result to give": lambda: untyped.mock("a", side_effect=[]),
    "takes a function, an error or a list": lambda: untyped.mock("a", side_effect=7),
    r"T.timeout\(\) takes a positive number": lambda: untyped.timeout(weather, 0),
    r"T.cache\(ttl=\) takes a positive number": lambda: untyped.cache(weather, ttl=-1),
    r"T.cache\(key=\) takes a function": lambda: untyped.cache(weather, key="city"),
    r"T.retry\(\) takes a positive whole number": lambda: untyped.retry(weather, 0),
    "needs pre= or post=": lambda: untyped.transform(weather),
    r"T.transform\(pre=\) takes a function": lambda: untyped.transform(weather, pre=1),
    r"T.confirm\(when=\) takes a function": lambda: untyped.confirm(weather, when=True),
    r"T.timeout\(\) takes a tool, not the name 'weather'": lambda: untyped.timeout("weather", 1),
    "so its calls cannot be wrapped": lambda: untyped.retry(T.google_search()),
    r"not list .*Unpack the list: .tools\(\*\[weather, half\]\)": lambda: Agent("a").tools(
        cast(Any, [weather, half])
    ),
    "is an expression, not a tool. Use T.agent": lambda: untyped.fn(weather) | Agent("a"),
    "Did you mean 'retry'": lambda: untyped.rety,
}


@pytest.mark.parametrize(("message", "make"), MISTAKES.items(), ids=MISTAKES)
def test_mistakes(message: str, make: Any) -> None:
    """An invalid tool is an error where it is written, in one line that says what to write."""
    with pytest.raises((ArgumentError, UnknownMethodError), match=message) as error:
        make()
    assert isinstance(error.value, ADKFluentError)
    assert "\n" not in str(error.value)


# --- what is known of it --------------------------------------------------------------------------


def test_the_keys_of_a_tool() -> None:
    """Declared keys are seen through every wrapper; those said with `T.fn` win; what is declared is known."""
    tools = [measure, T.fn(measure), T.cache(T.retry(measure), key=str), T.timeout(T.fn(measure), 1)]
    for tool in tools:
        node = Agent("a").tools(tool).node
        assert (sorted(node.reads_keys), node.key_writes) == (["unit"], ("last",))
    node = Agent("a").tools(T.fn(measure, writes=["other"])).node
    assert (sorted(node.reads_keys), node.key_writes) == ([], ("other",))
    missing = Agent("a").tools(T.retry(measure)).check()
    assert [issue.key for issue in missing.issues if issue.key] == ["unit"]


def test_the_keys_of_an_agent_as_a_tool() -> None:
    """An expression as a tool reads the keys that its agents need from outside, and may write theirs."""
    node = Agent("boss").tools(T.agent(RESEARCH)).node
    assert (sorted(node.reads_keys), node.key_writes) == (["topic"], ("found",))
    follows = Agent("boss").tools(T.agent(RESEARCH)) >> Agent("b").instruct("{found}")
    assert {issue.key for issue in follows.check().issues if issue.key} == {"topic", "found"}
    assert {issue.key for issue in check_all(follows, state={"topic": "x"}).warnings} == {"found"}


def test_servers_are_unknown_once() -> None:
    """One finding names all servers whose tools may use unknown state keys."""
    tools = T.mcp("http://127.0.0.1:1/mcp") | T.retry(T.mcp("http://127.0.0.1:2/mcp"))
    issues = Agent("a").instruct("Go.").tools(tools).check().issues
    assert [(issue.severity, issue.code) for issue in issues] == [(Severity.INFO, "unknown-access")]
    assert "mcp(http://127.0.0.1:1/mcp)" in issues[0].message


def test_two_tools_of_one_name() -> None:
    """Wrapped or not, two tools of one name are an error, and a lambda is a warning."""
    for other in (weather, T.retry(weather), T.mock("weather"), T.mock(weather)):
        (issue,) = Agent("a").instruct("Go.").tools(T.fn(weather), other).check().issues
        assert issue.code == "duplicate-tool"
    (issue,) = Agent("a").instruct("Go.").tools(T.timeout(lambda: 1, 5)).check().issues
    assert issue.code == "unnamed-tool"


def test_a_run_whose_tool_asks_a_person_is_resumable() -> None:
    """A run of an agent whose tool asks, however it is wrapped, is resumable; one without is not."""
    asking = [T.confirm(weather), T.retry(T.confirm(weather)), T.fn(weather, True), T.confirm(Box())]
    for tool in asking:
        agent = Agent("a").tools(tool)
        assert agent.node.may_pause
        assert agent.to_app().resumability_config is not None
    assert not Agent("a").tools(T.retry(weather)).node.may_pause
    assert confirms(Agent("a").tool(Box(), require_confirmation=True).node.tools[0])


def test_an_agent_that_asks_a_person_is_no_tool() -> None:
    """An expression that may wait for a person cannot be a tool, and check and build say so."""
    asking = Agent("payer").tool(half, require_confirmation=True)
    agent = Agent("boss").tools(T.timeout(T.agent(asking), 5))
    (issue,) = agent.check().errors
    assert "'payer'" in issue.message
    with pytest.raises(CompileError, match=r"boss.*'payer'.*T.confirm\(T.agent"):
        agent.build()


def test_tools_of_adk_stay_unchanged() -> None:
    """ADK's own tools stay what they are."""
    built: Any = Agent("a").tools(T.google_search()).build()
    assert isinstance(built.tools[0], GoogleSearchTool)
    native = AgentTool(Agent("b").build())
    built = Agent("a").tools(T.retry(native)).build()
    assert isinstance(built.tools[0], AgentTool)
    assert built.tools[0] is not native
