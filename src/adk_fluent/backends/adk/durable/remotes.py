"""Agents of other processes, asked as steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]  # its public home on every supported version
from google.adk.events.event import Event
from google.adk.tools.tool_context import ToolContext

from adk_fluent.a2a.protocol.cards import CardError
from adk_fluent.a2a.protocol.connections import RemoteCall, hears
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.durable.contexts import context_of, dumped
from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, Worker, current, do, jsonable
from adk_fluent.backends.adk.steps.remote_agent import Exchange, RemoteComposite
from adk_fluent.errors import MockError, what_happened
from adk_fluent.middleware.faults import is_passing

_FAILED: Final = "failed"


def call_as_steps(agents: Mapping[str, BaseAgent], table: Table, services: Worker) -> None:
    """Let each call of a remote agent be a step; time limits, tries and fallbacks stay where they are."""
    for agent in agents.values():
        if isinstance(agent, RemoteComposite):
            table.add("remote", agent.name, _Caller(agent.exchange, agent.name, agents, services))
            agent.exchange_by(_exchange(table, agent.name))


def _exchange(table: Table, name: str) -> Exchange:
    async def ask(asking: InvocationContext, call: RemoteCall) -> AsyncGenerator[Event, None]:
        call.end()  # the worker who makes it cancels it
        data = {"context": dumped(ToolContext(asking), name), "stream": hears(asking)}
        step = Step("remote", name, name, data)
        engine, whole = current(), cast("list[Json]", [])
        if engine is not None and hears(asking):
            async with aclosing(engine.stream(step)) as told:
                async for piece in told:
                    if isinstance(piece, list):
                        whole = cast("list[Json]", piece)
                    else:
                        yield Event.model_validate(piece)
            whole = [event for event in whole if not _is_piece(event)]
        else:
            whole = await do(table, step)
        for event in whole:
            if _FAILED in event:
                raise CardError(event[_FAILED], passing=event["passing"])
            yield Event.model_validate(event)

    return ask


class _Caller:
    """Calls a remote agent."""

    def __init__(
        self, exchange: Exchange, agent: str, agents: Mapping[str, BaseAgent], services: Worker
    ) -> None:
        self._exchange, self._agent, self._agents, self._services = exchange, agent, agents, services

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """All that is heard of it, in order, and what made it fail; pieces of answers are told before."""
        context = context_of(data["context"], self._agents, self._services())
        mode = StreamingMode.SSE if data["stream"] else StreamingMode.NONE
        given = {"run_config": RunConfig(streaming_mode=mode)}
        asking = private.invocation(context).model_copy(update=given)
        call, heard = RemoteCall(), list[Json]()
        try:
            async with aclosing(self._exchange(asking, call)) as events:
                async for event in events:
                    given = event.model_dump(mode="json", exclude_none=True)
                    heard.append(jsonable(given, "what is heard of a remote agent", self._agent))
                    if _is_piece(heard[-1]):
                        await tell(heard[-1])
        except MockError:
            raise
        except CardError as error:
            heard.append({_FAILED: str(error), "passing": error.passing})
        except Exception as error:  # noqa: BLE001  # whatever it was, the run tries again, or tells it
            heard.append({_FAILED: f"it failed: {what_happened(error)}", "passing": is_passing(error)})
        finally:
            call.leave()
        return heard


def _is_piece(told: Mapping[str, Json]) -> bool:
    """Whether an event tells a part of an answer that is on its way."""
    return bool(told.get("partial"))
