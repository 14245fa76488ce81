"""A web service: answers stream to a browser piece by piece, and a person approves a refund over HTTP.

python examples/service.py          asks the service, in this process
python examples/service.py 8000     serves it on http://127.0.0.1:8000
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from adk_fluent import Agent, Route
from adk_fluent.backends import ADKBackend
from adk_fluent.errors import ADKFluentError
from adk_fluent.testing import call_tool, mock_backend


def refund(order: str, euros: float) -> str:
    """Pay money back for an order."""
    return f"{euros:.2f} EUR for {order} are on their way"


triage = Agent("triage", "gemini-2.5-flash").instruct("Say refund or other, one word.").writes("topic")
talker = Agent("talker", "gemini-2.5-flash").instruct("Answer kindly, for a tea shop, in one sentence.")
refunds = (
    Agent("refunds", "gemini-2.5-flash")
    .instruct("Pay back what never arrived, and say so.")
    .tool(refund, require_confirmation=True)
)
desk = triage >> Route("topic").eq("refund", refunds).otherwise(talker)
SCRIPT = {
    "triage": ["other", "refund"],
    "talker": "Good day!",
    "refunds": [call_tool("refund", order="A7", euros=12.5), "I have paid you 12.50 EUR back."],
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)
app = FastAPI(title="Tea desk")


class Message(BaseModel):
    text: str


class Decision(BaseModel):
    approved: bool


@app.post("/chats/{chat}/messages")
async def send(chat: str, message: Message) -> StreamingResponse:
    """Server-sent events: `text` pieces, `approve` if a person is asked, `error`, and `end`."""

    async def events() -> AsyncIterator[str]:
        try:
            async with aclosing(desk.stream(message.text, session_id=chat, backend=BACKEND)) as stream:
                async for event in stream:
                    if event.is_partial and event.content and event.visibility == "user":
                        yield sent("text", event.content)
                    for asked in event.pending:
                        yield sent("approve", {"id": asked.id, "call": dict(asked.payload)})
        except ADKFluentError as error:
            yield sent("error", str(error))
        yield sent("end", None)

    return StreamingResponse(events(), media_type="text/event-stream")


@app.post("/chats/{chat}/approvals/{asked}")
async def decide(chat: str, asked: str, decision: Decision) -> dict[str, str]:
    """Go on with the run that waits, and give its answer."""
    result = await desk.resume(session_id=chat, approvals={asked: decision.approved}, backend=BACKEND)
    return {"text": result.text}


@app.exception_handler(ADKFluentError)
async def refused(request: Request, error: Exception) -> JSONResponse:
    """A chat or an approval that is not there is the caller's mistake, told in one line."""
    return JSONResponse({"error": str(error)}, status_code=409)


def sent(kind: str, value: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n"


async def browser() -> None:
    """What a page would do."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://desk", timeout=60) as http:
        for text in ("Hello", "My order A7 for 12.50 EUR never came. Please pay it back."):
            print(f"> {text}")
            asked, kind = "", ""
            async with http.stream("POST", "/chats/ann/messages", json={"text": text}) as response:
                async for line in response.aiter_lines():
                    name, _, value = line.partition(": ")
                    kind = value if name == "event" else kind
                    if name == "data" and kind != "end":
                        print(f"{kind}: {value if kind != 'approve' else json.loads(value)['call']}")
                        asked = json.loads(value)["id"] if kind == "approve" else asked
        answer = await http.post(f"/chats/ann/approvals/{asked or 'nobody'}", json={"approved": True})
        print(answer.status_code, answer.text)
        answer = await http.post("/chats/bob/approvals/never", json={"approved": True})
        print(answer.status_code, answer.text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]))
    else:
        asyncio.run(browser())
