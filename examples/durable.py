"""A run that continues when the program dies: a server for development, a worker, and a gate that waits."""

from __future__ import annotations

import asyncio

from adk_fluent import Agent, gate
from adk_fluent.backends import TemporalBackend
from adk_fluent.distributed import DevServer, run_worker
from adk_fluent.testing import mock_backend

letter = (
    Agent("draft").instruct("Write to the customer.").writes("letter")
    >> gate(lambda state: True, message="Send this? {letter}")
    >> Agent("send").instruct("Say that this was sent: {letter}")
)
scripts = mock_backend({"draft": "Dear Ann, your tea is on its way.", "send": "It is sent."})


async def main() -> None:
    """Ask for a letter, and approve it."""
    with (
        DevServer() as server
    ):  # in production: a cluster, and `adk-fluent worker` on as many machines as you like
        worker = asyncio.create_task(run_worker(letter, address=server.address, models=scripts))
        asked = await letter.run("Where is my tea?", backend=TemporalBackend(server.address))
        print(asked.pending[0].message)
        # From here on nothing has to run but the server, for days; any program can answer.
        done = await letter.resume(
            session_id=asked.session_id,
            approvals={asked.pending[0].id: True},
            backend=TemporalBackend(server.address),
        )
        print(done.text)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
