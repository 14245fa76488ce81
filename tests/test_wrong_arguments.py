"""A constructor refuses an argument of the wrong type at once, in one line that names the argument."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

from adk_fluent import Agent, RemoteAgent
from adk_fluent.a2a import AgentDirectory
from adk_fluent.debug import Recording
from adk_fluent.distributed import DistributedBackend, run_worker
from adk_fluent.errors import ADKFluentError, ArgumentError
from adk_fluent.eval import FluentCase, FluentEvalSuite

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
