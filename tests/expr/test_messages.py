"""Frequent mistakes of newcomers, each with an error line that names the right form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.sessions import InMemorySessionService
from pydantic import BaseModel

from adk_fluent import Agent, C, FanOut, P, Pipeline, Preset, Route, S, StateSchema, map_over, race
from adk_fluent.contracts import check_all, check_contracts
from adk_fluent.errors import ADKFluentError, ArgumentError, ExpressionError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import each

a, b, c = Agent("a"), Agent("b"), Agent("c")
untyped: Any = a
untyped_b: Any = b


def is_done(state: Any) -> bool:
    """A predicate."""
    return True


def message(wrong: Callable[[], object], kind: type[ADKFluentError] = ArgumentError) -> str:
    """The error message, on one line."""
    with pytest.raises(kind) as caught:
        wrong()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "fn", "instead"),
    [
        (a, is_done, "a * until(is_done, max=10)"),
        (a >> b, each(lambda state: True)[0], "a * until(fn, max=10)"),
        ((a >> b).named("both"), is_done, "both * until(is_done, max=10)"),
    ],
)
def test_a_predicate_alone_is_no_number_of_rounds(expression: Any, fn: Any, instead: str) -> None:
    """`a * fn` says to wrap the function, and how."""
    assert message(lambda: expression * fn).endswith(f"wrap it: {instead}.")


_native = LlmAgent(name="native")
_ORDER, _TOGETHER = "one after another", "at the same time"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            lambda: untyped + b,
            f"+ does not join expressions. Write a >> b to run them {_ORDER}, or a | b to ",
        ),
        (
            lambda: untyped & b,
            f"& does not join expressions. Write a >> b to run them {_ORDER}, or a | b to ",
        ),
        (lambda: untyped - b, "- does not join expressions. Write a >> b to "),
        (lambda: untyped / b, "/ does not join expressions. Write a // b to run b if a fails."),
        (lambda: untyped << b, "<< does not join expressions. Write b >> a to "),
        (lambda: untyped > b, "Expressions have no order to compare. Write a >> b to "),
        (lambda: untyped < b, "Expressions have no order to compare. Write b >> a to "),
        (lambda: _native > untyped, "Expressions have no order to compare. Write native >> a to "),
        (lambda: _native + untyped, "+ does not join expressions. Write native >> a to "),
        (lambda: untyped + is_done, "+ does not join expressions. Write a >> is_done to "),
        (lambda: (b >> c) + untyped, "+ does not join expressions. Write (b >> c) >> a to "),
        (lambda: untyped + 5, "+ does not join expressions. One side is int 5."),
        (
            lambda: sum(_list_of(a, b)),
            "+ does not join expressions. One side is int 0. To join a list, write ",
        ),
        (lambda: len(untyped), "An expression has no length. len(expression.node.children) counts "),
        (lambda: untyped[0], "An expression is not a list: "),
        (lambda: [*untyped], "An expression is not a list: "),
        (lambda: "a" in untyped, "An expression is not a list: "),
    ],
)
def test_what_an_expression_cannot_do(wrong: Callable[[], object], told: str) -> None:
    """An operator without a meaning says which one is meant; a `TypeError`, as Python's own error was."""
    said = message(wrong)
    assert said.startswith(told), said


def test_an_expression_is_true() -> None:
    """`agent or default` and `if agent:` work as for any object, also though `len` is refused."""
    assert all([a, a >> b, S.set(x=1)])
    assert (untyped or b) is a


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (lambda: untyped >> untyped_b.run, ">>"),
        (lambda: untyped_b.run >> untyped, ">>"),
        (lambda: untyped | untyped_b.ask, "|"),
        (lambda: untyped // untyped_b.ask, "//"),
        (lambda: Pipeline(a, untyped_b.run), "Pipeline()"),
        (lambda: Pipeline("p").step(untyped_b.ask_async), ".step()"),
        (lambda: race(a, untyped_b.run), "race()"),
        (lambda: map_over("items", untyped_b.run), "map_over()"),
        (lambda: a.tap(untyped_b.run), "tap()"),
        (lambda: a.until(untyped_b.ask), "until()"),
        (lambda: a.proceed_if(untyped_b.ask), "proceed_if()"),
        (lambda: a.instruct(untyped_b.ask), "instruct()"),
        (lambda: a.before_model(untyped_b.run), "before_model()"),
        (lambda: S.transform("x", untyped_b.ask), "S.transform()"),
    ],
)
def test_a_method_of_an_expression_is_no_function(wrong: Callable[[], object], where: str) -> None:
    """`a >> b.run` would call the method with the state as its prompt."""
    said = message(wrong)
    assert said.startswith(f"{where} does not take the method "), said
    assert "() of 'b'. To run b as a step, write b alone, without ." in said
    assert message(lambda: untyped >> untyped_b.session().send).startswith(
        ">> does not take the method send() of a Chat"
    )


def _entered(opened: Any) -> None:
    with opened:
        pass


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            lambda: _entered(a.session()),
            "A Chat is opened by `async with`, inside an async function, not by ",
        ),
        (lambda: _entered(a.live()), "A Live is opened by `async with`, inside an async function, not by "),
        (lambda: list(untyped.stream("Hi")), "A stream is read by `async for`, inside an async function, "),
    ],
)
def test_what_is_asynchronous_says_so(wrong: Callable[[], object], told: str) -> None:
    """`with` and `for`, where `async with` and `async for` were meant."""
    said = message(wrong)
    assert said.startswith(told), said


async def test_a_stream_is_read_once() -> None:
    """A second loop over a stream that ended says so; `anext` ends as Python's generators do."""
    events = a.stream("Hi", backend=mock_backend({"a": "Hello."}))
    async for _ in events:
        break
    assert [event.content async for event in events if not event.is_partial] == ["Hello."]
    assert await anext(events, None) is None
    with pytest.raises(RunError, match=r"^This stream has ended, .* Call stream\(\) again"):
        _ = [event async for event in events]
    async with aclosing(a.stream("Hi", backend=mock_backend())) as unread:
        pass
    with pytest.raises(RunError, match="has ended"):
        aiter(unread)


def _list_of(*steps: object) -> Any:
    return list(steps)


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        (lambda: a >> _list_of(b, c), "Write >> (b | c) to run them at the same time, or >> b >> c "),
        (lambda: untyped >> tuple(_list_of(b, c)), "Write >> (b | c) to run them at the same time, or "),
        (lambda: _list_of(b, c) >> a, "Write >> (b | c) to run them at the same time, or >> b >> c "),
        (lambda: a | _list_of(b, c), "Write | b | c."),
        (lambda: a // _list_of(b, c), "Write // b // c."),
        (lambda: a >> _list_of(b), "Take it out of the list."),
        (lambda: a >> _list_of(S.set(x=1), b), "Write >> (set | b) to run them"),
        (lambda: Pipeline(_list_of(a, b)), "Unpack the list: Pipeline(*steps)."),
        (lambda: FanOut(_list_of(a, b)), "Unpack the list: FanOut(*steps)."),
        (lambda: race(a, _list_of(b, c)), "Unpack the list: race(*steps)."),
        (lambda: map_over("items", _list_of(a, b)), "Write (a | b) to run them at the same time, or a >> b "),
        (lambda: Route("k").eq("x", _list_of(a, b)), "Write (a | b) to run them at the same time, or a >> b"),
    ],
)
def test_a_list_where_an_expression_belongs(wrong: Callable[[], object], instead: str) -> None:
    """Expressions in a list are shown joined, in both ways that may be meant."""
    assert instead in message(wrong)


@pytest.mark.parametrize("value", [[], [1], ["b"], [b, 1]], ids=repr)
def test_other_lists_are_refused_without_advice(value: Any) -> None:
    """A list that holds no expressions, or more than those, is just refused."""
    assert message(lambda: a >> value).endswith(f"not list {value!r}.")


Swapped = Callable[[Any, Any], object]


@pytest.mark.parametrize(
    ("swap", "value", "instead"),
    [
        (Route("k").eq, "x", "Route('k').eq('x', a)"),
        (Route("k").ne, "x", "Route('k').ne('x', a)"),
        (Route("k").gt, 5, "Route('k').gt(5, a)"),
        (Route("k").gte, 5, "Route('k').gte(5, a)"),
        (Route("k").lt, 5, "Route('k').lt(5, a)"),
        (Route("k").lte, 5, "Route('k').lte(5, a)"),
        (Route("k").contains, "x", "Route('k').contains('x', a)"),
        (Route("k").matches, "x.*", "Route('k').matches('x.*', a)"),
        (Route().when, is_done, "Route().when(is_done, a)"),
    ],
)
def test_swapped_arguments_of_a_route(swap: Swapped, value: object, instead: str) -> None:
    """A branch where its test belongs is recognised, and the right order is shown."""
    assert message(lambda: swap(a, value)).endswith(f"the two are swapped: write {instead}.")


def test_a_branch_that_is_an_expression_twice_is_no_swap() -> None:
    """Two expressions give no hint about swapped arguments; a value that is not a test is refused."""
    assert "compares with a number or text" in message(lambda: Route("k").gt(untyped, b))


# --- names ----------------------------------------------------------------------------------------


class St(StateSchema):
    """A schema with a field that is easily misspelt."""

    intent: str
    confidence: float = 0.0


@pytest.mark.parametrize(
    ("holder", "wrong", "told"),
    [
        (S, "renme", "S has no 'renme'. Did you mean 'rename'?"),
        (C, "windw", "C has no 'windw'. Did you mean 'window'?"),
        (P, "rol", "P has no 'rol'. Did you mean 'role'?"),
        (S, "zzzzzz", "S has no 'zzzzzz'. It has pick, drop, rename, "),
        (St, "intnt", "St has no field 'intnt'. Did you mean 'intent'? It has intent, confidence."),
        (a, "intsruct", "Agent has no method 'intsruct'. Did you mean 'instruct'?"),
        (a >> b, "instuct", "Pipeline has no method 'instuct'. Did you mean 'instruct'?"),
        (
            a >> b,
            "seed",
            "Pipeline has no method 'seed': that is for its agents. Call .generate(seed=...) on an",
        ),
        (a, "temprature", "Agent has no method 'temprature'. Did you mean .generate(temperature=...)?"),
        (a, "response_schema", "Agent has no method 'response_schema'. Write .returns(...)."),
        *[
            (a, o, f"Agent has no method {o!r}. Write .generate({o}=...).")
            for o in ("temperature", "seed", "top_k")
        ],
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(holder: object, wrong: str, told: str) -> None:
    """Factories, fields and methods that do not exist name the nearest; `hasattr` still says no."""
    with pytest.raises(ADKFluentError) as caught:
        getattr(holder, wrong)
    assert isinstance(caught.value, AttributeError)
    assert str(caught.value).startswith(told)
    assert not hasattr(holder, wrong)


@pytest.mark.parametrize("holder", [S, C, P, St])
def test_names_that_python_asks_for_are_just_absent(holder: object) -> None:
    """Names that other libraries look up on any object raise a plain `AttributeError` without suggestions."""
    with pytest.raises(AttributeError) as caught:
        getattr(holder, "_repr_html_")  # noqa: B009  # a type checker knows that it is not there
    assert not isinstance(caught.value, ADKFluentError)


@pytest.mark.parametrize(
    ("expression", "method", "told"),
    [
        (a >> b, "instruct", "Pipeline has no method 'instruct': its agents have prompts."),
        (a | b, "instruct", "FanOut has no method 'instruct': its agents have prompts."),
        (a * 2, "tool", "Loop has no method 'tool': that is for its agents."),
        (a // b, "writes", "Fallback has no method 'writes': that is for its agents."),
    ],
)
def test_methods_that_only_agents_have(expression: Expr[Any], method: str, told: str) -> None:
    """A method of agents, asked of what holds them, is sent there."""
    told = f"{told} Call .{method}() on an Agent, before it is joined with others."
    assert message(lambda: getattr(expression, method), ExpressionError) == told


def test_a_misspelt_preset() -> None:
    """Two letters that changed places count for less than a missing one."""
    untyped: Any = Preset
    assert message(lambda: untyped(modle="x"), ExpressionError).endswith("Did you mean 'model'?")


# --- options --------------------------------------------------------------------------------------


async def _stream(**options: Any) -> None:
    async with aclosing(a.stream("hi", **options)) as events:
        async for _ in events:
            pass


async def _send(**options: Any) -> None:
    async with a.session(**options) as chat:
        await chat.send("hi")


async def _run(**options: Any) -> None:
    await a.run("hi", **options)


async def _ask(**options: Any) -> None:
    await a.ask_async("hi", **options)


async def _map(**options: Any) -> None:
    await a.map(["hi"], **options)


WAYS = [_run, _ask, _stream, _send, _map]
BAD_OPTIONS: list[tuple[str, object, str]] = [
    ("backend", {"a": "x"}, "not dict {'a': 'x'}. Give scripted answers as backend=mock_backend("),
    ("backend", MockBackend, "backend= takes a backend, such as ADKBackend(), not the class MockBackend."),
    ("backend", "mock", "backend= takes a backend, such as ADKBackend(), not str 'mock'."),
    ("state", [1], 'state= takes a mapping of keys to values, such as {"topic": "tea"}, not list [1].'),
    ("state", "topic", 'state= takes a mapping of keys to values, such as {"topic": "tea"}, not str '),
    ("state", {1: 2}, "state= takes keys of text; 1 is of type int."),
    ("session_service", object(), "session_service= takes one of ADK's (BaseSessionService), not <object"),
    ("artifact_service", "x", "artifact_service= takes one of ADK's (BaseArtifactService), not 'x'."),
    ("memory_service", 5, "memory_service= takes one of ADK's (BaseMemoryService), not 5."),
    ("credential_service", [], "credential_service= takes one of ADK's (BaseCredentialService), not []."),
    ("session_service", InMemorySessionService, "session_service= takes one of ADK's (BaseSessionService), "),
    ("user_id", 5, "user_id= takes a user's id as text, not int 5."),
    ("user_id", "", "user_id= takes a user's id as text, not str ''."),
    ("session_id", 5, "session_id= takes a session's id as text, not int 5."),
    ("app_name", 5, "app_name= takes the name of an app as text, not int 5."),
    ("config", {"app_name": "x"}, "config= takes an ExecutionConfig, not dict {'app_name': 'x'}."),
    ("sate", {"x": 1}, "A run has no option 'sate'. Did you mean 'state'?"),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(("option", "value", "told"), BAD_OPTIONS)
async def test_an_option_of_the_wrong_kind(
    way: Callable[..., Awaitable[None]], option: str, value: object, told: str
) -> None:
    """Every way to run names the option that is wrong, before anything runs."""
    given = {"backend": mock_backend(default="x"), option: value}
    with pytest.raises(ArgumentError) as caught:
        await way(**given)
    assert told in str(caught.value)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_an_option_that_is_none_is_not_given(way: Callable[..., Awaitable[None]]) -> None:
    """`None` stands for the default of every option."""
    options = ["state", "session_service", "user_id", "app_name", "config", "session_id", "memory_service"]
    backend = mock_backend(default="x")
    await way(backend=backend, **dict.fromkeys(options))
    assert [len(requests) for requests in backend.calls.values()] == [1]


@pytest.mark.parametrize("service", ["session_service", "artifact_service", "memory_service"])
def test_a_service_of_the_wrong_kind_elsewhere(service: str) -> None:
    """A runner and a backend name the service, too."""
    wrong: Any = {service: object()}
    assert message(lambda: a.to_runner(**wrong)).startswith(f"{service}= takes one of ADK's (")
    assert message(lambda: mock_backend({}, **wrong)).startswith(f"{service}= takes one of ADK's (")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            "backend",
            "The runner is ADK's own. To use another backend, write run(prompt, backend=...).",
        ),
        ("app_name", "Set it in the configuration: to_runner(ExecutionConfig(app_name=...))."),
        ("state", "Set it in the run: runner.run_async(user_id=..., session_id=..., state_delta=..., new_"),
        ("sesion_service", "Did you mean 'session_service'?"),
        ("zzz", ""),
    ],
)
def test_a_runner_is_given_services_alone(option: str, told: str) -> None:
    """The error for a wrong argument of `to_runner` names its right place."""
    wrong: Any = {option: None}
    said = message(lambda: a.to_runner(**wrong))
    assert said.startswith(f"to_runner() has no option {option!r}. {told}".rstrip())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"schema": BaseModel}, "schema= takes a subclass of StateSchema, not BaseModel."),
        ({"schema": St.intent}, "schema= takes a subclass of StateSchema, not "),
        ({"state": [1]}, "state= takes a mapping of keys to values"),
        ({"state": {1: 2}}, "state= takes keys of text; 1 is of type int."),
        ({"config": {}}, "config= takes an ExecutionConfig, not dict {}."),
    ],
)
def test_an_option_of_the_check(options: Any, told: str) -> None:
    """The check names the option that is wrong, as a function and as a method."""
    assert message(lambda: check_all(a, **options)).startswith(told)
    assert message(lambda: a.check(**options)).startswith(told)
    if "schema" in options:
        assert message(lambda: check_contracts(a, **options)).startswith(told)
