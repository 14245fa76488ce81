"""A remote agent on the durable engine: each call of it is a step, not made again once it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adk_fluent import Agent, RemoteAgent, gate
from adk_fluent.a2a import RetryConfig
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.worker import working
from adk_fluent.errors import RemoteError
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.limits import LIMIT, begins, within_limit
from tests.remote.others import Says, listening, plain, says

pytestmark = pytest.mark.newest

NOWHERE = "http://127.0.0.1:1"


def _workers(cached: int = 0, **scripts: Any) -> dict[str, Any]:
    """Workers that really ask remote agents, and run everything again from its history at each decision."""
    return {"models": mock_backend(scripts, default="ok", remotes="real"), "cached": cached}


async def test_a_remote_agent_is_asked_once(workers: Workers) -> None:
    """What it said is in the history: the run is decided again and again, the server is asked once."""
    clerk = says("Paid.")
    async with listening(plain(clerk)) as url:
        far = RemoteAgent("far", endpoint=url).writes("out")
        made = Agent("a").writes("said") >> far.reads("said") >> Agent("b").instruct("Tell {out}.")
        result = await made.run("hi", backend=Served(workers, _workers()))
    assert (result.text, result.state) == ("ok", {"said": "ok", "out": "Paid."})
    assert isinstance(clerk.model, Says)
    assert len(clerk.model.asked) == 1


async def test_its_answer_comes_in_pieces(workers: Workers) -> None:
    """As they are produced, and each once."""
    async with listening(plain(says("Hel", "lo"), streaming=True)) as url:
        far = RemoteAgent("far", endpoint=url)
        events = [event async for event in far.stream("hi", backend=Served(workers, _workers()))]
    assert [event.content for event in events if event.is_partial] == ["Hel", "lo"]
    assert [event.content for event in events if event.is_final and not event.is_partial] == ["Hello"]


async def test_what_it_asks_a_person_waits(workers: Workers) -> None:
    """Its gate is the run's: it is answered by `resume`, and the remote task goes on."""
    steps = Agent("clerk") >> gate(lambda state: True, message="Pay?") >> Agent("teller")
    async with A2AServer(steps, backend=mock_backend({"clerk": "Bill.", "teller": "Paid."})) as server:
        far, backend = RemoteAgent("far", endpoint=server.url), Served(workers, _workers())
        asked = await far.run("hi", backend=backend)
        assert [pending.message for pending in asked.pending] == ["Pay?"]
        approvals = {asked.pending[0].id: True}
        done = await far.resume(session_id=asked.session_id, approvals=approvals, backend=backend)
    assert done.text == "Paid."


async def test_tries_and_fallbacks_are_those_of_any_backend(workers: Workers) -> None:
    """A dead endpoint is tried as often as was said; then its fallback runs, or the error names it."""
    far = RemoteAgent("far", endpoint=NOWHERE, retry=RetryConfig(2, 0.01))
    backend = Served(workers, _workers())
    with pytest.raises(RemoteError, match=r"'far' at http://127.0.0.1:1: .*tried 2 times"):
        await far.run("hi", backend=backend)
    near = RemoteAgent("far", endpoint=NOWHERE, fallback=Agent("near"))
    assert (await near.run("hi", backend=backend)).text == "ok"
    slow = RemoteAgent("far", endpoint=NOWHERE, timeout=0.2, fallback=Agent("near"))
    assert (await slow.run("hi", backend=backend)).text == "ok"


async def test_a_script_answers_in_its_place(workers: Workers) -> None:
    """As for any agent, where a test says so."""
    models = mock_backend({"far": "Paid."}, remotes="scripted")
    result = await RemoteAgent("far", endpoint=NOWHERE).run("hi", backend=Served(workers, {"models": models}))
    assert result.text == "Paid."


async def test_who_cancels_a_run_cancels_the_remote_task(temporal: DevServer) -> None:
    """The server that is asked hears of it."""
    begun, left = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        yield ""

    async with A2AServer(Agent("clerk"), backend=mock_backend({"clerk": endless()})) as server:
        far = RemoteAgent("far", endpoint=server.url)
        queue = "remote-cancelled"
        backend = TemporalBackend(temporal.address, queue=queue, worker_timeout=LIMIT)
        async with working(far.node, Address(temporal.address), queue=queue, **_workers(100)):
            run = asyncio.ensure_future(far.run("hi", backend=backend))
            await begins(begun, run)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            assert await within_limit(left.wait())
