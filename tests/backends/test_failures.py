"""Who failed: steps, tools and models are named however an expression is run; the error is the cause."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import errors, types
from pydantic import BaseModel, ValidationError

from adk_fluent import Agent, C, P, Pipeline, Route, S, gate, map_over, race, tap, transfer, until
from adk_fluent.context.spec import Context
from adk_fluent.errors import (
    ADKFluentError,
    MissingKeyError,
    ModelError,
    PredicateError,
    ReadOnlyStateError,
    RunError,
    StateGuardError,
    StepError,
    ToolError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.predicates import Match
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import ANYWAY, each, play, raises_from, script
from tests.cli.gemini import Behaviour, Gemini, serve_models
from tests.limits import in_thread

A, B = Agent("a"), Agent("b")


# --- the ways to run ------------------------------------------------------------------------------


async def _run(expression: Expr[Any], **options: Any) -> None:
    await expression.run("hi", **options)


async def _ask(expression: Expr[Any], **options: Any) -> None:
    await expression.ask_async("hi", **options)


async def _map(expression: Expr[Any], **options: Any) -> None:
    await expression.map(["hi"], **options)


async def _stream(expression: Expr[Any], **options: Any) -> None:
    async with aclosing(expression.stream("hi", **options)) as events:
        async for _ in events:
            pass


async def _chat(expression: Expr[Any], **options: Any) -> None:
    async with expression.session(**options) as session:
        await session.send("hi")


async def _blocking(expression: Expr[Any], **options: Any) -> None:
    await in_thread(partial(expression.ask, "hi", **options))


async def _to_runner(expression: Expr[Any]) -> None:
    await _drive(expression.to_runner(session_service=InMemorySessionService()))


async def _drive(runner: Runner) -> None:
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        async for _ in events:
            pass


Way = Callable[..., Awaitable[object]]
WAYS: dict[str, Way] = {
    "run": _run,
    "ask_async": _ask,
    "map": _map,
    "ask": _blocking,
    "stream": _stream,
    "session": _chat,
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


# --- steps ----------------------------------------------------------------------------------------


def boom(*values: Any) -> Any:
    """Fail."""
    raise LookupError("no\n such thing")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (A >> boom, "Step 'boom' raised LookupError: no such thing."),
        (A >> S.fn(boom), "Step 'fn' raised LookupError: no such thing."),
        (A >> S.compute(k=boom), "Step 'compute' raised LookupError: no such thing."),
        (A.writes("k") >> S.transform("k", boom), "Step 'transform' raised LookupError: no such thing."),
        (A.writes("k") >> S.when("k", S.compute(x=boom)), "Step 'when' raised LookupError: no such thing."),
        (A >> tap(boom), "Step 'boom' raised LookupError: no such thing."),
        (A.tap(boom).named("all"), "Step 'boom' raised LookupError: no such thing."),
        (A >> tap(boom).named("look"), "Step 'look' raised LookupError: no such thing."),
    ],
    ids=repr,
)
async def test_a_function_that_raises_is_named(expression: Expr[Any], message: str) -> None:
    """Whichever step runs the function, one line names the step and tells the error, which is the cause."""
    with raises_from(LookupError) as caught:
        await play(expression)
    assert type(caught.value) is StepError
    assert str(caught.value) == message


async def test_an_async_step_that_raises_is_named() -> None:
    """A function that is awaited is named like a plain one."""

    async def fetch(state: Any) -> None:
        raise ConnectionError("down")

    with raises_from(ConnectionError, match=r"^Step 'fetch' raised ConnectionError: down\.$"):
        await play(A >> fetch)


@pytest.mark.parametrize(
    ("expression", "kind", "message"),
    [
        (A >> S.compute(k=lambda s: s["topc"]), MissingKeyError, "Step 'compute' needs state key 'topc'"),
        (A >> tap(lambda s: s["topc"]), MissingKeyError, "Step 'tap' needs state key 'topc'"),
        (
            A >> Route().when(lambda s: s["topc"], B),
            PredicateError,
            "'route': its predicate '<lambda>' needs state key 'topc'",
        ),
        (
            A * 2 >> B.proceed_if(lambda s: s["topc"]),
            PredicateError,
            "'route': its predicate '<lambda>' needs state key 'topc'",
        ),
    ],
    ids=["compute", "tap", "route", "proceed_if"],
)
async def test_a_key_that_is_not_there(expression: Expr[Any], kind: type[RunError], message: str) -> None:
    """A function that asks for a missing key is named, with the key, the nearest one, and what to write."""
    with raises_from(KeyError) as caught:
        await play(expression, state={"topic": "tea"}, config=ANYWAY)
    assert type(caught.value) is kind
    assert str(caught.value) == (
        f"{message}, which is not set. Did you mean 'topic'? Use state.get('topc') if it may be missing."
    )


def _assigns(state: Any) -> None:
    state["x"] = 1


def _deletes(state: Any) -> None:
    del state["x"]


WRITES: list[tuple[Callable[[Any], Any], str]] = [
    (_assigns, 'return {"x": 1}'),
    (_deletes, 'return {"x": None}'),
    (lambda s: s.update(x=1), 'return {"x": 1}'),
    (lambda s: s.update({"x": 1}, y="b"), 'return {"x": 1, "y": \'b\'}'),
    (lambda s: s.setdefault("x", []), 'return {"x": []}'),
    (lambda s: s.pop("x"), 'return {"x": None}'),
    (lambda s: s.pop("x", 5), 'return {"x": None}'),
    (lambda s: s.__ior__({"x": 1}), 'return {"x": 1}'),
]


@pytest.mark.parametrize(("write", "instead"), WRITES)
async def test_a_step_that_writes_into_state(write: Callable[[Any], Any], instead: str) -> None:
    """Every way to change a dict is refused, naming the step and what to return in its place."""
    step = S.fn(write).named("f")
    with pytest.raises(ReadOnlyStateError) as caught:
        await play(A >> step, state={"x": 0})
    assert str(caught.value) == f"State is read-only in step 'f'; {instead}."


@pytest.mark.parametrize("empty", each(lambda s: s.clear(), lambda s: s.popitem()))
async def test_a_step_that_empties_state(empty: Callable[[Any], Any]) -> None:
    """What names no key is answered with the step that removes keys."""
    with pytest.raises(ReadOnlyStateError, match=r"in step 'f'; put S\.drop\(\.\.\.\) into the pipeline"):
        await play(A >> S.fn(empty).named("f"), state={"x": 0})


async def test_a_tap_that_writes_into_state() -> None:
    """A tap returns nothing, so the message names a step that does."""
    with pytest.raises(ReadOnlyStateError) as caught:
        await play(A >> tap(_assigns))
    assert str(caught.value) == (
        "State is read-only in tap '_assigns'; a step that returns {\"x\": 1} can write it."
    )


PREDICATES: dict[str, tuple[Expr[Any], str]] = {
    "route": (Route().when(_assigns, B), "'route'"),
    "proceed_if": (B.proceed_if(_assigns), "'route'"),
    "until": (B * until(_assigns), "'loop'"),
    "gate": (gate(_assigns, message="Go on?"), "'gate'"),
    "transfer": (Pipeline("p", transfer("b", condition=_assigns), S.set(x=2)) | B, "'to_b'"),
    "S.when": (S.when(_assigns, S.set(x=2)), "Step 'when' in S.when"),
    "S.guard": (S.guard(_assigns, "no"), "Step 'guard' in S.guard"),
    "P.when": (B.instruct(P.task("t") + P.when(_assigns, P.role("r"))), "'b' in P.when"),
    "C.when": (B.context(C.when(_assigns, C.none())), "'b' in C.when"),
}
"""Every place of a predicate, and how it is named."""


@pytest.mark.parametrize("place", PREDICATES)
async def test_a_predicate_that_writes_into_state(place: str) -> None:
    """What tests it is named, and that a step can write; what a predicate returns is written nowhere."""
    expression, where = PREDICATES[place]
    with raises_from(ReadOnlyStateError) as caught:
        await play(A >> expression)
    assert str(caught.value) == (
        f"{where}: its predicate '_assigns' raised ReadOnlyStateError: State is read-only in a predicate; "
        'a step that returns {"x": 1} can write it.'
    )


async def test_our_own_errors_pass_as_they_are() -> None:
    """What adk-fluent raises in a step is not wrapped: a guard stays a guard."""
    with pytest.raises(StateGuardError, match=r"^too dear$"):
        await play(A >> S.guard(lambda s: False, "too dear"))


@pytest.mark.parametrize("answer", ["high", "", "7 of 10"])
async def test_an_answer_that_is_no_number(answer: str) -> None:
    """A number test of a text that is none says which key holds what."""
    rated = Agent("a").writes("score")
    with raises_from(TypeError) as caught:
        await (S.set(score=answer) >> Route("score").gt(5, B)).run("hi", backend=script())
    assert str(caught.value) == (
        f"'route': its predicate 'score > 5' cannot be tested: 'score' is {answer!r}, which is no number."
    )
    assert (await play(rated >> Route("score").gt(5, B), {"a": " 7 ", "b": "yes"})).text == "yes"


async def test_a_comparison_inside_a_step_names_it() -> None:
    """`S.when` on a comparison that cannot be made names the step and the comparison."""
    told = r"^Step 'dear' in S\.when: its predicate 'k > 3' cannot be tested: 'k' is 'x', which is no num"
    with raises_from(TypeError, match=told):
        await play(A >> S.when(Match("k", "gt", 3), S.set(y=1)).named("dear"), state={"k": "x"})


@pytest.mark.parametrize("items", [[None, 1], [1, None]])
async def test_an_item_that_is_none(items: list[Any]) -> None:
    """An item that is None fills its placeholder with empty text, as None does everywhere."""
    backend = script({"b": ["x", "y"]})
    await map_over("items", B.instruct("<{_item}>")).run("hi", backend=backend, state={"items": items})
    assert sorted(call.system.splitlines()[0] for call in backend.calls["b"]) == ["<1>", "<>"]


@pytest.mark.parametrize("more", [C.default(), C.user_only()], ids=["plain", "context"])
async def test_an_instruction_that_raises_is_named(more: Context) -> None:
    """A function that makes an agent's instruction is told with its agent."""

    def instruction(ctx: Any) -> str:
        return ctx.state["nope"]

    with raises_from(KeyError, match=r"^Agent 'b': its instruction raised KeyError: 'nope'\.$") as caught:
        await play(A >> B.instruct(instruction).context(more))
    assert type(caught.value) is StepError


# --- tools ----------------------------------------------------------------------------------------


def look(city: str) -> str:
    """Look it up."""
    raise LookupError(f"nothing on {city}")


CLERK = Agent("clerk").tool(look)
CALLS = {"clerk": [call_tool("look", city="Rome"), "done"]}


@every_way
async def test_a_tool_that_raises_is_named(way: Way) -> None:
    """A tool's error names the tool and its agent, whichever way the expression is run."""
    with raises_from(LookupError) as caught:
        await way(A >> CLERK, backend=script(CALLS))
    assert type(caught.value) is ToolError
    assert str(caught.value) == "Agent 'clerk': its tool 'look' raised LookupError: nothing on Rome."


async def test_the_error_of_a_tool_keeps_its_type_inside_the_run() -> None:
    """A callback that handles tool errors gets what the tool raised, and the run goes on."""
    seen: list[Exception] = []

    def forgive(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
        seen.append(error)
        return {"result": "unknown"}

    assert (await play(CLERK.on_tool_error(forgive), CALLS)).text == "done"
    assert [type(error) for error in seen] == [LookupError]


# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")
async def test_an_agent_as_a_tool_tells_what_failed_inside() -> None:
    """Where a tool is an agent, its own failing tool is named, not the agent around it."""
    backend = script({**CALLS, "lead": [call_tool("clerk", request="go"), "done"]})
    inner: Any = backend.compile(CLERK.to_ir()).app.root_agent
    lead = Agent("lead").tool(AgentTool(inner))
    with raises_from(LookupError, match=r"^Agent 'clerk': its tool 'look' raised LookupError"):
        await lead.run("hi", backend=backend)


class Declined(Exception):
    """An error of a user that takes no further attributes."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("__traceback__", "__context__", "__cause__", "__suppress_context__"):
            raise TypeError(f"{name} cannot be set")
        super().__setattr__(name, value)


class Order(BaseModel):
    """Something to validate."""

    amount: int


async def test_an_error_that_cannot_be_changed_is_named() -> None:
    """An exception that takes no attributes, and one of pydantic's, are told like any other."""

    def pay(amount: int) -> str:
        """Pay."""
        raise Declined(amount)

    def order(amount: int) -> str:
        """Order."""
        return Order.model_validate({"amount": "x"}).model_dump_json()

    with raises_from(Declined, match="Agent 'a': its tool 'pay' raised Declined") as caught:
        await play(A.tool(pay), {"a": call_tool("pay", amount=7)})
    cause = caught.value.__cause__
    assert isinstance(cause, Declined)
    assert cause.args == (7,)
    with raises_from(ValidationError, match="Agent 'a': its tool 'order' raised ValidationError: 1 valid"):
        await play(A.tool(order), {"a": call_tool("order", amount=7)})


async def test_runs_at_the_same_time_name_their_own_agents() -> None:
    """What fails in one of several runs of one expression is told with its own agent."""
    meet = asyncio.Barrier(2)

    async def left(request: LlmRequest) -> AsyncIterator[str]:
        await meet.wait()
        raise ValueError("left")
        yield ""

    async def right(request: LlmRequest) -> AsyncIterator[str]:
        await meet.wait()
        raise ValueError("right")
        yield ""

    one, other = Agent("left", "gemini-2.5-flash"), Agent("right", "gemini-2.5-pro")
    pick = Route("side").eq("l", one).otherwise(other)
    backend = mock_backend({"left": left, "right": right})
    runs = [pick.run("hi", backend=backend, state={"side": side}) for side in ("l", "r")]
    told = await asyncio.gather(*runs, return_exceptions=True)
    assert [str(error) for error in told] == [
        "Agent 'left' got no answer from its model 'gemini-2.5-flash': ValueError: left.",
        "Agent 'right' got no answer from its model 'gemini-2.5-pro': ValueError: right.",
    ]


# --- models ---------------------------------------------------------------------------------------


def _flash(name: str = "writer") -> Agent[str]:
    """A fresh one each time: a model keeps its client, and with it connections, as long as it lives."""
    return Agent(name, "gemini-2.5-flash")


REFUSALS: dict[Behaviour, tuple[int, str, str]] = {
    "bad_key": (
        400,
        "400 INVALID_ARGUMENT: API key not valid. Please pass a valid API key.",
        "Check the key, and whether it may use this model.",
    ),
    "404": (
        404,
        "404 NOT_FOUND: models/gemini-2.5-flash is not found.",
        "Check the name of the model in Agent('writer', ...).",
    ),
    "429": (
        429,
        "429 RESOURCE_EXHAUSTED: You exceeded your current quota.",
        "Wait and try again, or use another model or key.",
    ),
    "500": (
        500,
        "500 INTERNAL: An internal error has occurred.",
        "Try again later; a second model after // takes over meanwhile.",
    ),
}


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Gemini]:
    """A server in Gemini's place; `gemini.failing` says how the agent `writer` fares there."""
    caplog.set_level(logging.CRITICAL + 1, "google_adk")  # what ADK logs would keep the client alive
    with serve_models(Gemini({"other": "I can."}), monkeypatch) as served:
        yield served


@pytest.mark.parametrize("behaviour", REFUSALS)
@pytest.mark.parametrize("way", [*WAYS.values(), _to_runner], ids=[*WAYS, "to_runner"])
async def test_a_refusing_gemini_is_told(way: Way, behaviour: Behaviour, gemini: Gemini) -> None:
    """What Gemini refuses names the agent and the model, says why and what to do, whichever way it is run."""
    code, said, advice = REFUSALS[behaviour]
    gemini.failing = {"writer": behaviour}
    start = "Agent 'writer' got no answer from its model 'gemini-2.5-flash':"
    assert await _told(way) == (ModelError, f"{start} {said} {advice}", code)


async def _told(way: Way) -> tuple[type[RunError], str, int]:
    """What is raised, as plain values: nothing may keep the client alive."""
    with raises_from(errors.APIError) as caught:
        await way(_flash())
    cause = caught.value.__cause__
    assert isinstance(cause, errors.APIError)
    return type(caught.value), str(caught.value), cause.code


@pytest.mark.parametrize("way", [*WAYS.values(), _to_runner], ids=[*WAYS, "to_runner"])
async def test_a_missing_key_is_told(way: Way) -> None:
    """Without a key one line names the agent, and says how to set one and how to do without."""
    with raises_from(ValueError) as caught:
        await way(_flash())
    assert type(caught.value) is ModelError
    told = str(caught.value)
    assert told.startswith("Agent 'writer' got no answer from its model 'gemini-2.5-flash': there is no API")
    assert "Set GOOGLE_API_KEY" in told
    assert "backend=mock_backend({...})" in told
    assert "\n" not in told


class OnlyA(MockBackend):
    """Scripts every model but that of `b`."""

    def __init__(self) -> None:
        super().__init__(default="ok")

    def model_for(self, node: AgentNode, origin: str, model: str | BaseLlm | None = None) -> Any:
        return None if node.name == "b" else super().model_for(node, origin, model)


async def test_a_name_that_no_provider_knows_is_told() -> None:
    """A model's name that ADK does not know names the agent that has it."""
    with raises_from(ValueError) as caught:
        await (A >> Agent("b", "no-such-model")).run("hi", backend=OnlyA())
    assert type(caught.value) is ModelError
    told = str(caught.value)
    assert told.startswith("Agent 'b' got no answer from its model 'no-such-model': ValueError: Model no-")
    assert told.endswith("Check the name of the model in Agent('b', ...).")


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (
            ValueError(
                "Model m not found.\n\nClaude models require the anthropic package.\nInstall it with: pip x"
            ),
            "Install it with: pip x.",
        ),
        (ModuleNotFoundError("No module named 'anthropic'"), "Install the package of this model's provider."),
        (
            RuntimeError("Missing credentials. Pass an `api_key`."),
            "key in the environment, such as OPENAI_API_KEY.",
        ),
        (ValueError("Model m not found.\n\nA bare name."), "Check the name of the model in Agent('b', ...)."),
    ],
    ids=["package", "prefix", "credentials", "name"],
)
async def test_a_provider_that_is_not_set_up_is_no_wrong_name(problem: Exception, advice: str) -> None:
    """Without the package or the key of a provider the message says that, and not to check the name."""
    with pytest.raises(ModelError) as caught:
        await Agent("b", "m").run("hi", backend=mock_backend({"b": problem}))
    assert str(caught.value).endswith(advice)


@pytest.mark.parametrize("behaviour", REFUSALS)
async def test_a_fallback_takes_over_from_a_refusing_gemini(behaviour: Behaviour, gemini: Gemini) -> None:
    """`//` and `race` see the same refusals as failures, and the other branch answers."""
    gemini.failing = {"writer": behaviour}
    assert (await (_flash() // _flash("other")).run("hi")).text == "I can."
    assert (await race(_flash(), _flash("other")).run("hi")).text == "I can."


async def test_a_fallback_takes_over_without_a_key() -> None:
    """A missing key is a failure like any other to a fallback."""
    assert (await (_flash() // S.set(done=True)).run("hi")).state == {"done": True}


@pytest.mark.parametrize("behaviour", ["404", "429"])
async def test_adks_own_runner_gets_adks_own_error(behaviour: Behaviour, gemini: Gemini) -> None:
    """Under a plain runner of ADK a model's error is what it is without us."""
    gemini.failing = {"writer": behaviour}
    error = await _natively(_flash())
    assert issubclass(error, errors.ClientError)
    assert not issubclass(error, ADKFluentError)


async def _natively(expression: Expr[Any]) -> type[Exception]:
    sessions = InMemorySessionService()
    runner = Runner(app=expression.to_app(), session_service=sessions, auto_create_session=True)
    with pytest.raises(errors.APIError) as caught:
        await _drive(runner)
    return type(caught.value)
