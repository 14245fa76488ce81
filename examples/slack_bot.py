"""A bot shaped as Slack wants it, without Slack: threads are sessions, buttons approve, events come twice.

python examples/slack_bot.py
"""

import asyncio
import os
from typing import Any

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend, RunResult
from adk_fluent.testing import call_tool, mock_backend

Payload = dict[str, Any]


def restart(service: str) -> str:
    """Restart a service of the company."""
    return f"{service} is up again"


operator = (
    Agent("operator", "gemini-2.5-flash")
    .instruct("You are on call. Restart a service when somebody of the team asks for it. Be brief.")
    .tool(restart, require_confirmation=True)
)
SCRIPT = {
    "operator": [
        "The shop answers slowly since nine.",
        call_tool("restart", service="shop"),
        "Done: shop is up again.",
    ]
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


class Bot:
    """Turns what Slack sends into messages to post; a web server would call `handle` for each request."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def handle(self, payload: Payload) -> list[Payload]:
        match payload:
            case {
                "type": "event_callback",
                "event_id": str(number),
                "event": {"type": "app_mention"} as event,
            }:
                if number in self.seen:  # Slack sends an event again when the answer takes over three seconds
                    return []
                self.seen.add(number)
                return await self.mentioned(event)
            case {"type": "block_actions", "actions": [{"action_id": str(choice), "value": str(asked)}]}:
                thread = payload["message"]["thread_ts"]
                result = await operator.resume(
                    session_id=thread,
                    app_name="oncall",
                    approvals={asked: choice == "approve"},
                    backend=BACKEND,
                )
                return self.posts(result, payload["channel"]["id"], thread)
            case _:
                return []

    async def mentioned(self, event: Payload) -> list[Payload]:
        thread = event.get("thread_ts", event["ts"])
        text = event["text"].partition("> ")[2]
        result = await operator.run(text, session_id=thread, app_name="oncall", backend=BACKEND)
        return self.posts(result, event["channel"], thread)

    def posts(self, result: RunResult[str], channel: str, thread: str) -> list[Payload]:
        """The answer, and two buttons for each thing a person must decide."""
        said = [{"text": result.text}] if result.text else []
        asked = [
            {"text": pending.message, "blocks": [buttons(pending.message, pending.id)]}
            for pending in result.pending
        ]
        return [{"channel": channel, "thread_ts": thread, **post} for post in said + asked]


def buttons(question: str, asked: str) -> Payload:
    choices = [
        {
            "type": "button",
            "action_id": choice,
            "value": asked,
            "text": {"type": "plain_text", "text": choice},
        }
        for choice in ("approve", "refuse")
    ]
    return {"type": "actions", "block_id": question[:20], "elements": choices}


def mention(number: str, text: str, **more: str) -> Payload:
    event = {"type": "app_mention", "channel": "C1", "user": "U1", "text": f"<@B0> {text}", **more}
    return {"type": "event_callback", "event_id": number, "event": event}


async def main() -> None:
    bot = Bot()
    first = mention("Ev1", "How is the shop?", ts="100.1")
    second = mention("Ev2", "Restart it.", ts="100.2", thread_ts="100.1")
    for payload in (first, first, second):
        posts = await bot.handle(payload)
        print(payload["event_id"], [(post["thread_ts"], post["text"]) for post in posts])
        for post in posts:
            for element in post.get("blocks", [{"elements": []}])[0]["elements"][:1]:
                click = {"type": "block_actions", "channel": {"id": "C1"}, "actions": [element]}
                answers = await bot.handle({**click, "message": {"thread_ts": post["thread_ts"]}})
                print("clicked", element["action_id"], [answer["text"] for answer in answers])


if __name__ == "__main__":
    asyncio.run(main())
