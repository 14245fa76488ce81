"""Plain ADK, as people write it, for the tests of adopting it."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.state import declares


def shell(kind: str, name: str, *agents: BaseAgent, **fields: Any) -> BaseAgent:
    """One of ADK's own composites, which newer releases call deprecated."""
    import google.adk.agents as agents_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(agents_module, kind)(name=name, sub_agents=list(agents), **fields)


def says(agent: BaseAgent, ctx: InvocationContext, text: str) -> Event:
    """An event with words of an agent."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author=agent.name, invocation_id=ctx.invocation_id, branch=ctx.branch, content=content)


class Custom(BaseAgent):
    """An agent of the user's own class."""

    greeting: str = "custom"

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        topic = ctx.session.state.get("topic", "nothing")
        yield says(self, ctx, f"{self.greeting} about {topic}")


@declares(reads=["topic"], writes=["summary"])
class Declared(Custom):
    """One that says what it touches."""


class Polite(LlmAgent):
    """A subclass that runs as ADK's agents do."""

    tone: str = "kind"


class Unclonable(Custom):
    """One of which there is only one."""

    def clone(self, update: Any = None) -> Any:
        raise TypeError("a connection cannot be copied")


class Forgetful(Custom):
    """One whose clones know nothing."""

    _connection: object = PrivateAttr(default_factory=object)

    def clone(self, update: Any = None) -> Any:
        """Another one, made anew."""
        return Forgetful(name=self.name)


class Connected(Custom):
    """One whose clones share what it keeps to itself."""

    _connection: object = PrivateAttr(default_factory=object)


def save_order(order: str, tool_context: Any) -> str:
    """Save an order."""
    tool_context.state["order"] = order
    return "saved"


def look_up(order: str) -> str:
    """Look up an order."""
    return f"{order} is on its way"


def note_start(callback_context: Any) -> None:
    """A callback that writes."""
    callback_context.state["started"] = True


def provide(context: Any) -> str:
    """An instruction that reads the state."""
    return f"Answer for {context.state['tier']}."


Make = Callable[[], BaseAgent]
