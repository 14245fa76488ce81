"""A constructor refuses an argument of the wrong type at once, in one line that names the argument."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools import AgentTool, google_search

from adk_fluent import (
    A,
    Agent,
    C,
    FanOut,
    Loop,
    P,
    Pipeline,
    RemoteAgent,
    Route,
    S,
    T,
    agent,
    final_text,
    until,
)
from adk_fluent.a2a import AgentDirectory
from adk_fluent.adopt import adopt
from adk_fluent.debug import Recording
from adk_fluent.distributed import DistributedBackend, run_worker
from adk_fluent.errors import ADKFluentError, ArgumentError, CallbackError
from adk_fluent.eval import FluentCase, FluentEvalSuite
from adk_fluent.middleware import find_personal_data
from adk_fluent.testing import call_tool, mock_backend

URL = "http://127.0.0.1:1"
NEEDED: dict[str, dict[str, object]] = {
    "adk_fluent:RemoteAgent": {"name": "pay", "endpoint": URL},
    "adk_fluent.a2a:AgentDirectory": {"url": URL},
    "adk_fluent.a2a:DirectoryServer": {},
    "adk_fluent.backends:DryRunBackend": {},
    "adk_fluent.backends:MockBackend": {},
    "adk_fluent.debug:Recorder": {},
    "adk_fluent.debug:ReplayerBackend": {"recording": Recording()},
    "adk_fluent.eval:FluentCase": {"input": "Hi"},
    "adk_fluent.eval:FluentEvalSuite": {"pipeline": Agent("a")},
    "adk_fluent.eval:FluentJudge": {"name": "short", "fn": len},
    "adk_fluent.eval:UserSimulation": {},
    "adk_fluent.serve:A2AServer": {"expression": Agent("a")},
    "adk_fluent.serve:ServeLimits": {},
}
"""Constructor → the arguments that it cannot do without."""
OF_THE_ENGINE: dict[str, dict[str, object]] = {
    "adk_fluent.backends:StepPolicy": {},
    "adk_fluent.backends:TemporalBackend": {},
    "adk_fluent.distributed:DevServer": {},
    "adk_fluent.distributed:DistributedBackend": {},
}


class Odd:
    """Not what any argument is."""


def named(path: str) -> Any:
    """The object at an import path."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def refusal(made: Any, given: dict[str, object]) -> str:
    """The message with which a constructor refuses arguments; empty if it takes them."""
    try:
        made(**given)
    except ADKFluentError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("path", "needed"),
    [*NEEDED.items(), *(pytest.param(*each, marks=pytest.mark.newest) for each in OF_THE_ENGINE.items())],
)
def test_a_wrong_type_is_refused_by_name(path: str, needed: dict[str, object]) -> None:
    """Each argument; also what stands for nothing in Python, such as 0, is no way around it."""
    made = named(path)
    for one in inspect.signature(made).parameters.values():
        for wrong in (Odd(), 0j) if one.kind is not one.VAR_KEYWORD else ():
            told = refusal(made, {**needed, one.name: wrong})
            assert one.name in told, f"{path}({one.name}={wrong!r}) says {told!r}"
            assert "\n" not in told


@pytest.mark.newest
@pytest.mark.parametrize("path", [path for path in OF_THE_ENGINE if path.endswith("Backend")])
def test_a_policy_is_no_word(path: str) -> None:
    """Both backends that take a policy say whose argument it is, and what to write."""
    with pytest.raises(ArgumentError) as told:
        named(path)(policy="fast")
    owner = path.partition(":")[2]
    assert str(told.value) == (
        f"{owner}(policy=) is a StepPolicy(timeout=, heartbeat=, attempts=), not 'fast'."
    )


@pytest.mark.newest
@pytest.mark.parametrize("name", ["segment", "queue", "telemetry", "concurrency"])
async def test_a_worker_refuses_likewise(name: str) -> None:
    """Before it looks for a server."""
    given: dict[str, Any] = {name: Odd()}
    with pytest.raises(ArgumentError, match=rf"run_worker\({name}=\) is "):
        await run_worker(Agent("a"), **given)
    given = {"expression": "a"}
    with pytest.raises(ArgumentError, match=r"run_worker\(expression=\) is an expression, not 'a'"):
        await run_worker(**given)


@pytest.mark.newest
def test_a_secret_in_the_wrong_place_is_not_shown() -> None:
    """The error says its type alone."""
    wrong: Any = b"sk-live-4242"
    backend = named("adk_fluent.backends:TemporalBackend")
    for call in (
        lambda: AgentDirectory(URL, auth=wrong),
        lambda: RemoteAgent("pay", endpoint=URL, auth=wrong),
        lambda: DistributedBackend(api_key=wrong),
        lambda: backend(api_key=wrong),
    ):
        with pytest.raises(ArgumentError, match=r"not bytes\.$") as told:
            call()
        assert "4242" not in str(told.value)


@pytest.mark.newest
@pytest.mark.parametrize("run_timeout", [0, False, float("inf"), 1e300])
def test_a_run_has_a_time_that_the_engine_takes(run_timeout: float) -> None:
    """Nought is no way to say that there is no limit."""
    with pytest.raises(ArgumentError, match=r"TemporalBackend\(run_timeout=.*positive number of seconds"):
        named("adk_fluent.backends:TemporalBackend")(run_timeout=run_timeout)


def test_values_that_come_one_by_one_are_a_list() -> None:
    """Checking them does not use them up."""
    tags: Any = (tag for tag in ["billing"])
    case = FluentCase("x", tags=tags)
    cases: Any = (each for each in [case])
    suite = FluentEvalSuite(Agent("a"), cases)
    assert (case.tags, suite.cases) == (("billing",), (case,))


# --- every factory and builder method --------------------------------------------------------------


def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def max_of_two(one: object, two: object) -> object:
    """A function of two arguments."""
    return one


def has_context(context: object) -> None:
    """A callback whose parameter has another name than ADK gives it."""


async def later(state: object) -> dict[str, object]:
    """An async function of the state."""
    return {}


def untyped(value: Any) -> Any:
    """The same value, which a type checker does not look at."""
    return value


NAT = LlmAgent(name="native")
WRONG: tuple[Any, ...] = (
    *(None, "", "text", ["a"], [], [1], {"a": 1}, 5, -1, math.nan, math.inf, True, b"x", ("a", 1)),
    *(Odd, Odd(), Agent, Agent("x"), LlmAgent, NAT, AgentTool(NAT), google_search, later, weather),
    *(untyped(lambda: 1), has_context, max_of_two, C.none(), P.role("x"), S.pick("a"), T.fn(weather)),
)
"""What a hurried user gives instead of the right value."""
NEEDS: dict[str, Any] = {
    **{"expression": Agent("x"), "fn": len, "function": weather, "predicate": len, "prompt": P.role("x")},
    **{"schema": dict, "server": "http://h/mcp", "spec": C.none(), "tool": weather, "transform": S.pick("a")},
    **{
        "step": 1,
        "then": Agent("x"),
        "url": "http://h/x",
        "n": 3,
        "max_tokens": 9,
        "seconds": 3,
        "budget": 9,
    },
}
"""The name of a parameter → a value that fits; `key` for other names."""
HELPERS = {"from_node", "gather", "joined", "members_of"}
"""Public for other modules of the package, not for users."""


def factories() -> Iterator[Any]:
    """The factories of each namespace, and the builder methods of each expression."""
    for space in (T, S, C, P, A):
        for name in sorted(vars(space)):
            if not name.startswith("_") and callable(made := getattr(space, name)):
                yield pytest.param(made, id=f"{space.__name__}.{name}")
    two = Agent("x"), Agent("y")
    for expression in (Agent("x"), Pipeline(*two), FanOut(*two), Loop(*two), Route("k")):
        for name in sorted(dir(type(expression))):
            method = getattr(type(expression), name)
            built = inspect.isfunction(method) and not inspect.iscoroutinefunction(method)
            if built and name not in RUNNING and not name.startswith("_"):
                yield pytest.param(getattr(expression, name), id=f"{type(expression).__name__}.{name}")


RUNNING = {"ask", "build", "stream", "to_agent", "to_app", "to_runner", "visualize", *HELPERS}


def call(made: Callable[..., Any], wrong: str, value: object) -> None:
    """Call a factory with fitting values, and with `value` for the parameter `wrong`."""
    positional: list[object] = []
    keywords: dict[str, object] = {}
    for one in inspect.signature(made).parameters.values():
        given: Any = value if one.name == wrong else NEEDS.get(one.name, "key")
        if one.kind is one.VAR_KEYWORD:
            keywords["any"] = given
        elif one.kind is one.KEYWORD_ONLY:
            keywords |= {one.name: given} if one.default is one.empty or one.name == wrong else {}
        elif one.kind is one.VAR_POSITIONAL or one.default is one.empty or one.name == wrong:
            positional.append(given)
    made(*positional, **keywords)


@pytest.mark.parametrize("made", list(factories()))
def test_no_argument_ends_in_an_error_of_python(made: Callable[..., Any]) -> None:
    """A factory or method takes a value, or refuses it in one line of our own."""
    told: list[str] = []
    for name in inspect.signature(made).parameters:
        for value in WRONG:
            try:
                call(made, name, value)
            except ADKFluentError as error:
                told.append(str(error))
    assert not [one for one in told if "\n" in one]


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "positional": (
        lambda: untyped(T).transform(weather, len),
        r"Write T\.transform\(tool, pre=\.\.\., post=",
    ),
    "keyword": (
        lambda: untyped(A).list(into="k"),
        r"Write A\.list\(into_key='artifacts'\)\. Did you mean 'into_key'",
    ),
    "no argument": (
        lambda: untyped(S).pick(key="k"),
        r"^S\.pick\(\) got an unexpected keyword argument 'key'",
    ),
    "pre of two": (lambda: untyped(T).transform(weather, pre=max_of_two), r"pre=.*with one argument"),
    "post of none": (lambda: untyped(T).transform(weather, post=lambda: 1), r"post=.*with one argument"),
    "predicate of none": (
        lambda: untyped(until)(lambda: True),
        r"until\(\) calls the lambda with one argument",
    ),
    "step of none": (lambda: Agent("a") >> untyped(lambda: None), r">> calls the lambda with one argument"),
    "agent by name": (lambda: untyped(T).agent("x"), r"T\.agent\(Agent\('x'\)\)"),
    "agent is a tool": (
        lambda: untyped(T).agent(AgentTool(NAT)),
        r"ADK's AgentTool 'native'\. It is a tool already",
    ),
    "agent is a function": (lambda: untyped(T).agent(weather), r"Write T\.fn\(\.\.\.\)"),
    "agent is a class": (lambda: untyped(T).agent(LlmAgent), r"T\.agent\(LlmAgent\(\.\.\.\)\)"),
    "confirm": (lambda: untyped(T).fn(weather, confirm="no"), r"T\.fn\(confirm=\) is True or False"),
    "reads": (lambda: untyped(S).fn(later, reads=5), r"S\.fn\(reads=\) takes a list of state keys, not 5"),
    "helper model": (lambda: untyped(C).summarize(model=5), r"C\.summarize\(model=\) takes a model's name"),
    "model of a prompt": (lambda: untyped(P).compress(model=Agent("x")), r"P\.compress\(model=\) takes"),
    "counter": (lambda: untyped(C).fit(9, count_tokens=5), r"C\.fit\(count_tokens=\) takes a function"),
    "scorer": (
        lambda: untyped(C).relevant(scorer=5),
        r"C\.relevant\(scorer=\) takes a function \(query, text\)",
    ),
    "bytes": (lambda: untyped(C).redact(b"x"), r"C\.redact\(\) takes regular expressions as text"),
    "model object": (
        lambda: untyped(C).extract(Recording(), into="k"),
        r"C\.extract\(\) takes a pydantic model",
    ),
    "not a number": (lambda: S.counter("k", step=math.nan), r"S\.counter\(step=\) takes a number"),
    "static": (lambda: untyped(Agent("a")).static(Agent("x")), r"Agent 'a': static\(\) takes text"),
    "static prompt": (lambda: untyped(Agent("a")).static(P.role("x")), r"str\(prompt\)"),
    "number first": (lambda: untyped(3) * Agent("a"), r"Write a \* 3\."),
    "type first": (lambda: untyped(dict) @ Agent("a"), r"Write a @ dict\."),
    "text first": (lambda: untyped("x") | Agent("a"), r"\| takes an expression .*Did you mean Agent\('x'\)"),
    "nothing first": (lambda: untyped(None) // Agent("a"), r"// takes an expression .*not NoneType None"),
    "decorator": (lambda: untyped(agent)("a", model=5), r"Agent 'a': the model must be a name"),
    "most rounds": (lambda: untyped(until)(len, max="5"), r"A loop runs a positive whole number of times"),
    "events": (lambda: untyped(final_text)("x"), r"final_text\(\) takes the events of a run"),
    "personal data": (lambda: untyped(find_personal_data)(None), r"find_personal_data\(text=\) is text"),
    "bytes at most": (lambda: T.a2a(URL, max_bytes=untyped(math.inf)), r"max_bytes= is a positive number"),
    "card": (lambda: untyped(Agent("a")).to_agent_card(endpoint=URL, version=1), r"version=\) takes text"),
}
"""Values that would fail later, at run time, with an unclear error."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_value_is_refused_where_it_is_given(case: str) -> None:
    """One line says what it takes, what it got and what to write."""
    make, told = REFUSED[case]
    with pytest.raises(ArgumentError, match=told) as error:
        make()
    assert "\n" not in str(error.value)


def test_an_agent_of_adk_is_a_tool_everywhere() -> None:
    """`T.agent`, wrappers, `|` and `.tools` adopt it, as `.tool` does."""
    native = LlmAgent(name="expert", model="m", instruction="Answer.")
    assert T.agent(native) == T.agent(adopt(native))
    for tools in (T.timeout(native, 5), T.agent(native), T.fn(weather) | untyped(native), native):
        boss = Agent("boss").instruct("Ask.").tools(tools)
        script = {"boss": [call_tool("expert", request="?"), "Done."], "expert": "Yes."}
        assert boss.ask("Hi", backend=mock_backend(script)) == "Done."


@pytest.mark.parametrize("hook", ["before_agent", "after_model", "before_tool", "after_tool"])
def test_a_callback_without_adks_parameters_says_which_it_needs(hook: str) -> None:
    """ADK calls callbacks with keyword arguments."""
    guide = Agent("guide").instruct("Help.").tools(weather)
    backend = mock_backend({"guide": [call_tool("weather", city="Ulm"), "Rain."]})
    with pytest.raises(
        CallbackError, match=rf"^Agent 'guide': its {hook} callback .*write def has_context\("
    ):
        getattr(guide, hook)(has_context).ask("Hi", backend=backend)
