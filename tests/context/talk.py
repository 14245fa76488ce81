"""Helpers for the tests of context: conversations as values, and short views of real requests."""

from __future__ import annotations

from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent.context.entries import CallPart, Entry, ResponsePart
from adk_fluent.context.selection import Selection, select
from adk_fluent.context.spec import Context
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, mock_backend

FENCE = ("<<<BEGIN_QUOTED_AGENT_CONTENT>>>\n", "\n<<<END_QUOTED_AGENT_CONTENT>>>")
"""What newer ADKs put around the text of another agent."""


def entry(author: str, text: str = "", *, turn: int = 0, index: int = 0, **fields: Any) -> Entry:
    """An entry with little said about it."""
    return Entry(author=author, origin=author, text=text, turn=turn, index=index, **fields)


def talk(*said: tuple[str, str], start: int = 0) -> list[Entry]:
    """A conversation of `(author, text)`; each message of the user starts a turn."""
    entries: list[Entry] = []
    turn = start
    for index, (author, text) in enumerate(said):
        turn += author == "user"
        entries.append(entry(author, text, turn=turn, index=index, timestamp=float(index)))
    return entries


def call(name: str, key: str) -> CallPart:
    """A tool call with that id."""
    return CallPart(name, "{}", key)


def answer(name: str, key: str, result: str = '{"ok": true}') -> ResponsePart:
    """The result of a tool call with that id."""
    return ResponsePart(name, result, key)


def is_short(text: str) -> bool:
    """A check of a text, and a condition on the state, that can be stored by its name."""
    return len(text) < 1000


def texts(selection: Selection) -> list[str]:
    """The selected entries of the conversation, as text."""
    return [chosen.text for chosen in selection.conversation]


def chosen(spec: Context, entries: list[Entry], **options: Any) -> list[str]:
    """The texts that a spec selects."""
    return texts(select(spec, entries, agent="me", **options))


# --- real requests --------------------------------------------------------------------------------


def system(request: LlmRequest) -> str:
    """The system instruction of a request, without the line in which ADK names the agent."""
    config: Any = request.config  # the type of its instruction names the optional PIL
    said = str(config.system_instruction or "")
    return said.partition("\n\nYou are an agent.")[0].partition("You are an agent.")[0]


def contents(request: LlmRequest) -> list[tuple[str, str]]:
    """The contents of a request as `(role, text)`, without ADK's words around another agent's."""
    return [(content.role or "", " ".join(_words(content))) for content in request.contents]


def _words(content: types.Content) -> list[str]:
    shown: list[str] = []
    for part in content.parts or []:
        if part.function_call:
            shown.append(f"call {part.function_call.name}")
        elif part.function_response:
            shown.append(f"result {part.function_response.response}")
        elif part.inline_data:
            shown.append(f"file {part.inline_data.mime_type}")
        elif part.text and not part.text.startswith("For context:"):
            said = part.text.replace(FENCE[0], "").replace(FENCE[1], "")
            shown.append(said.replace("said:\n", "said: "))
    return shown


def everything(request: LlmRequest) -> str:
    """All text of a request, wherever it stands."""
    return system(request) + "\n" + "\n".join(text for _, text in contents(request))


async def ask(
    expression: Expr[Any], *prompts: Any, responses: dict[str, Any] | None = None, **options: Any
) -> MockBackend:
    """Send messages in one session of their own."""
    backend = mock_backend(responses, session_service=InMemorySessionService())
    async with expression.session(backend=backend, **options) as chat:
        for prompt in prompts or ("hello",):
            await chat.send(prompt)
    return backend


async def last(expression: Expr[Any], agent: str, *prompts: Any, **options: Any) -> LlmRequest:
    """The last request that an agent's model got."""
    return (await ask(expression, *prompts, **options)).calls[agent][-1]
