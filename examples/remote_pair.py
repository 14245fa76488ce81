"""Two programs that call each other over A2A: a shop asks a refund desk, which asks a person first.

Both run here, one beside the other; with a key their agents ask Gemini.
"""

import asyncio
import os

from adk_fluent import Agent, RemoteAgent, S, gate
from adk_fluent.a2a import AgentDirectory, AuthConfig, DirectoryServer
from adk_fluent.backends import ADKBackend
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend

TOKEN = AuthConfig(token=os.environ.get("DESK_TOKEN", "for this example"))

desk = (
    Agent("ledger", "gemini-2.5-flash").instruct("Say in a line what order {order} is.").writes("found")
    >> gate(lambda state: state["order"] > 100, message="Refund order {order}?")
    >> Agent("refunds", "gemini-2.5-flash").describe("Gives money back.").instruct("Tell them: {found}")
).named("desk")


async def main() -> None:
    script = {"ledger": "A teapot, paid in May.", "refunds": "The money for your teapot is on its way."}
    models = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(script)
    async with DirectoryServer() as hosted, A2AServer(desk, auth=TOKEN, backend=models) as server:
        directory = AgentDirectory(hosted.url)
        await directory.register(desk.to_agent_card(endpoint=server.url), server=server)
        await shop(directory)


async def shop(directory: AgentDirectory) -> None:
    """The other program: it knows the directory, and the token."""
    (found,) = await directory.discover(capabilities=["refunds"])
    print(f"found {found.name}, which can: {', '.join(found.capabilities)}")
    pay = RemoteAgent.from_card(found, auth=TOKEN, capabilities=["refunds"], timeout=60)

    for number in (7, 101):
        steps = S.set(order=number) >> pay.reads("order").writes("answer")
        result = await steps.run("I want my money back.", session_id=f"order-{number}")
        for asked in result.pending:
            print(f"the desk asks: {asked.message} -> yes")
            result = await steps.resume(session_id=f"order-{number}", approvals={asked.id: True})
        print(f"order {number}: {result.state['answer']}")

    stranger = RemoteAgent.from_card(found, fallback=Agent("clerk"))
    told = await stranger.run("Pay me.", backend=mock_backend({"clerk": "Call us."}, remotes="real"))
    print(f"without the token: {told.text}")


if __name__ == "__main__":
    asyncio.run(main())
