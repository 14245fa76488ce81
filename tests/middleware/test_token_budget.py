"""`token_budget`: what is refused before it is spent, what counts, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, C, FanOut, gate
from adk_fluent.errors import ArgumentError, BudgetError, RunError
from adk_fluent.middleware import retry, token_budget
from adk_fluent.testing import mock_backend
from tests.backends.support import PlainLlm, play, reply, session_service

A, B = Agent("a"), Agent("b")


def using(total: int, text: str = "ok") -> Any:
    """An answer whose call used so many tokens."""
    return reply(text, usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=total))


async def test_a_request_that_would_exceed_the_budget_is_not_sent() -> None:
    """A request of 1,000 characters is 250 tokens: with 200 left it is refused before the model sees it."""
    backend = mock_backend({"a": "ok"})
    with pytest.raises(BudgetError) as caught:
        await A.instruct("x" * 1000).middleware(token_budget(200)).run("hi", backend=backend)
    assert not backend.calls.get("a")
    assert str(caught.value).startswith(
        "'a' would exceed its token_budget(200, per='run'): the run has used 0"
    )


async def test_what_answers_used_counts() -> None:
    """After an answer of 900 tokens, of 1,000, the next agent is refused; a new run begins anew."""
    backend = mock_backend({"a": using(900), "b": using(10)})
    pipeline = (A >> B.instruct("y" * 420)).middleware(token_budget(1000))
    for _ in range(2):
        with pytest.raises(BudgetError, match=r"^'b' would exceed .* the run has used 900, and this request"):
            await pipeline.run("hi", backend=backend)
    assert len(backend.calls["a"]) == 2
    assert not backend.calls.get("b")


async def test_each_agent_has_its_own() -> None:
    """With `per="agent"` what one agent used leaves the others theirs."""
    pipeline = (A >> B).middleware(token_budget(1000, per="agent"))
    result = await play(pipeline, {"a": using(990), "b": using(990)})
    assert result.text == "ok"
    with pytest.raises(BudgetError, match=r"^'a' would exceed .* it has used 990"):
        await play((A * 2).middleware(token_budget(1000, per="agent")), {"a": using(990)})


@pytest.mark.parametrize("restart", [False, True])
async def test_a_session_has_one_budget_for_all_its_runs(restart: bool, tmp_path: Path) -> None:
    """With `per="session"` the runs of a session share the budget, also after a restart."""
    budget = token_budget(1000, per="session")
    for run, session in enumerate(("one", "one", "two")):
        budget = token_budget(1000, per="session") if restart else budget
        backend = mock_backend({"a": using(900)}, session_service=session_service("sqlite", tmp_path))
        agent = A.instruct("y" * 420).middleware(budget)
        if run == 1:
            with pytest.raises(BudgetError, match=r"the session has used 900"):
                await agent.run("hi", session_id=session, backend=backend)
        else:
            assert (await agent.run("hi", session_id=session, backend=backend)).text == "ok"


async def test_branches_at_the_same_time_share_the_budget() -> None:
    """What calls under way are expected to use is kept for them: of five requests of 250 tokens three fit."""
    agents = [Agent(f"a{n}").instruct("x" * 980) for n in range(5)]
    release = asyncio.Event()
    sent: list[int] = []

    async def hold(request: LlmRequest) -> AsyncGenerator[str, None]:
        sent.append(1)
        if len(sent) == 3:
            release.set()
        await release.wait()
        yield "ok"

    backend = mock_backend({agent.name: hold for agent in agents})
    with pytest.raises(BudgetError, match="expected for calls under way"):
        await FanOut(*agents).middleware(token_budget(1000)).run("hi", backend=backend)
    assert len(sent) <= 3


async def test_images_and_tools_count() -> None:
    """An image counts 258 tokens, and the declarations of tools what they are long."""

    def wordy(x: str) -> str:
        return x

    wordy.__doc__ = "w" * 2000
    image = types.Part.from_bytes(data=b"x", mime_type="image/png")
    for agent, prompt in ((A, [image, "what is it?"]), (A.tool(wordy), "hi")):
        assert (await play(agent.middleware(token_budget(1000)), {"a": "ok"}, prompt)).text == "ok"  # pyright: ignore[reportArgumentType]  # a list of parts is a prompt
        with pytest.raises(BudgetError):
            await play(agent.middleware(token_budget(255)), {"a": "ok"}, prompt)  # pyright: ignore[reportArgumentType]  # likewise


async def test_questions_of_contexts_count() -> None:
    """What `C.summarize` asks counts as its agent's, and is refused like any other request."""
    backend = mock_backend({"a": "word " * 300, "b": "ok", "b:summarize": using(600, "short")})
    summed = (A >> B.context(C.window(1) | C.summarize())).middleware(token_budget(2600))
    with pytest.raises(BudgetError, match=r"^'b' would exceed .* the run has used 1,986"):
        await summed.run("hi " + "x" * 4000, backend=backend)
    backend = mock_backend({"a": "word " * 300, "b": "ok", "b:summarize": "short"})
    spec = C.window(1) | C.summarize()
    with pytest.raises(BudgetError, match=r"C\.summarize is about 4\d\d tokens"):
        await (A >> B.context(spec).middleware(token_budget(300))).run("hi", backend=backend)


async def test_calls_that_fail_use_nothing_unless_they_said_something() -> None:
    """A call that is refused by the provider leaves the budget as it was; one that breaks off does not."""
    backend = mock_backend({"a": [ConnectionError("no"), ConnectionError("no"), "ok"]})
    agent = A.instruct("x" * 800).middleware(retry(backoff_base=0), token_budget(300))
    assert (await agent.run("hi", backend=backend)).text == "ok"

    async def breaks_off(request: LlmRequest) -> AsyncGenerator[str, None]:
        yield "word " * 100
        raise ConnectionError("lost")

    budget = token_budget(400, per="session")
    backend = mock_backend({"a": [breaks_off, "ok"]})
    agent = A.instruct("x" * 800).middleware(budget)
    with pytest.raises(RunError, match="lost"):
        async for _ in agent.stream("hi", session_id="s", backend=backend):
            pass
    with pytest.raises(BudgetError, match="used 3"):
        await agent.run("hi", session_id="s", backend=backend)


async def test_a_fallback_does_not_get_around_it() -> None:
    """A `//` takes over with what the budget still allows, and with nothing else."""
    large = A.instruct("x" * 900)
    assert (await play((large // B).middleware(token_budget(100)), {"b": "small"})).text == "small"
    backend = mock_backend({"a": "ok", "b": "ok"})
    with pytest.raises(BudgetError):
        await (large // B.instruct("x" * 900)).middleware(token_budget(100)).run("hi", backend=backend)
    assert not backend.calls.get("b")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((0,), "token_budget(max_tokens=) is a whole number, at least 1, not 0."),
        ((-5,), "token_budget(max_tokens=) is a whole number, at least 1, not -5."),
        ((1.5,), "token_budget(max_tokens=) is a whole number, at least 1, not 1.5."),
        (("1000",), "token_budget(max_tokens=) is a whole number, at least 1, not '1000'."),
        ((10, "day"), "token_budget(per=) is one of 'run', 'session', 'agent', not 'day'."),
    ],
)
def test_wrong_arguments(wrong: tuple[Any, ...], message: str) -> None:
    """Each wrong argument is one clear line."""
    with pytest.raises(ArgumentError) as caught:
        token_budget(*wrong)
    assert str(caught.value) == message


# --- what stored events tell ----------------------------------------------------------------------


def pipeline_of(per: Any) -> Any:
    """Two agents that share a budget of 2,000 tokens; the request of the second one is about 250."""
    return (A >> B.instruct("y" * 1000)).middleware(token_budget(2000, per=per))


async def test_after_a_restart_what_all_agents_used_counts(tmp_path: Path) -> None:
    """A new process counts what every agent of the budget used, not only the one that calls."""
    for run in range(2):
        backend = mock_backend(
            {"a": using(900), "b": using(900)}, session_service=session_service("sqlite", tmp_path)
        )
        running = pipeline_of("session").run("hi", session_id="s", backend=backend)
        if run == 0:
            await running
        else:
            with pytest.raises(BudgetError, match=r"^'b' would exceed .* the session has used 2,700, and"):
                await running
            assert not backend.calls.get("b")


async def test_after_a_pause_what_all_agents_used_counts(tmp_path: Path) -> None:
    """Another process that goes on with a run counts what every agent used before it waited."""
    waiting = (
        A >> B >> gate(lambda s: True, message="Go on?") >> Agent("c").instruct("z" * 1000)
    ).middleware(token_budget(2000))
    says = {"a": using(900), "b": using(900), "c": "never"}
    backend = mock_backend(says, session_service=session_service("sqlite", tmp_path))
    result = await waiting.run("hi", session_id="s", backend=backend)
    backend = mock_backend(says, session_service=session_service("sqlite", tmp_path))
    yes = {pending.id: True for pending in result.pending}
    with pytest.raises(BudgetError, match=r"^'c' would exceed .* the run has used 1,800, and"):
        await waiting.resume(session_id="s", approvals=yes, backend=backend)
    assert not backend.calls.get("c")


async def test_agents_that_the_budget_is_not_for_use_none_of_it(tmp_path: Path) -> None:
    """After a restart, what agents without the budget used is not counted."""
    for _ in range(2):
        backend = mock_backend(
            {"a": using(5000), "b": using(700)}, session_service=session_service("sqlite", tmp_path)
        )
        pipeline = A >> B.middleware(token_budget(2000, per="session"))
        assert (await pipeline.run("hi", session_id="s", backend=backend)).text == "ok"


async def test_runs_of_another_process_count(tmp_path: Path) -> None:
    """Two processes that take turns in one session see what each other's runs have used."""
    budgets = [token_budget(2000, per="session") for _ in range(2)]
    backends = [
        mock_backend({"a": using(600)}, session_service=session_service("sqlite", tmp_path)) for _ in range(2)
    ]
    for run in range(4):
        agent = A.instruct("y" * 1000).middleware(budgets[run % 2])
        running = agent.run("hi", session_id="s", backend=backends[run % 2])
        if run < 3:
            await running
        else:
            with pytest.raises(BudgetError, match="the session has used 1,800, and"):
                await running


@pytest.mark.parametrize("restart", [False, True])
async def test_what_was_taken_back_is_not_used(restart: bool, tmp_path: Path) -> None:
    """A rewind gives a session's budget what it was before the run, in this process and in another."""

    def backend() -> Any:
        return mock_backend({"a": using(400)}, session_service=session_service("sqlite", tmp_path))

    on: dict[str, Any] = {"session_id": "s", "backend": backend()}
    agent = A.middleware(token_budget(1000, per="session"))
    await agent.run("hi", **on)
    for _ in range(3):
        run = await agent.run("hi", **on)
        await agent.rewind(before_invocation_id=run.invocation_id, **on)
        on["backend"] = backend() if restart else on["backend"]
    with pytest.raises(BudgetError, match="the session has used 400, and"):
        await agent.run("x" * 3000, **on)


async def test_budgets_of_equal_requests_are_one() -> None:
    """A turn with a budget object of its own knows what other turns of its session expect to use."""
    begun, release = asyncio.Event(), asyncio.Event()

    async def hold(request: LlmRequest) -> AsyncGenerator[Any, None]:
        begun.set()
        await release.wait()
        yield using(600)

    backend = mock_backend({"a": hold})

    def request() -> Any:
        agent = A.instruct("x" * 2400).middleware(token_budget(1000, per="session"))
        return agent.run("hi", session_id="s", backend=backend)

    first = asyncio.create_task(request())
    await begun.wait()
    with pytest.raises(BudgetError, match=r"the session has used 0, 6\d\d are expected for calls under way"):
        await request()
    release.set()
    assert (await first).text == "ok"


async def test_each_item_of_a_map_counts() -> None:
    """Of inputs that are mapped over, each is a run of its own, and shares the budget of a session alone."""
    agent = A.middleware(token_budget(1000))
    assert await agent.map(["one", "two", "three"], backend=mock_backend({"a": using(900)})) == ["ok"] * 3


@pytest.mark.parametrize("reported", [False, True])
async def test_streamed_text_counts_once(reported: bool) -> None:
    """An answer that comes in pieces and then whole uses the tokens of its text once."""

    async def streams(request: LlmRequest) -> AsyncGenerator[Any, None]:
        for _ in range(4):
            yield reply("word " * 80, partial=True)
        yield using(450, "word " * 320) if reported else reply("word " * 320)

    budget = token_budget(10_000, per="session")
    asked = Agent("a", PlainLlm.of(streams)).middleware(budget)
    service = InMemorySessionService()
    async for _ in asked.stream("hi", session_id="s", session_service=service):
        pass
    with pytest.raises(BudgetError, match=r"the session has used 4(0[0-9]|[0-4][0-9]|50), and"):
        await asked.run("x" * 80_000, session_id="s", session_service=service)
