"""`.preview()`: the requests that models would get, gathered without any model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.backends.adk.api import ModelRequest, Response
from adk_fluent.backends.mock import MockBackend
from adk_fluent.backends.requests import answer_form, request_text
from adk_fluent.backends.stand_ins import in_form, stand_in
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError
from adk_fluent.inspection.presentation import PerAgent
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import resolve_names
from adk_fluent.ir.nodes import agents_in
from adk_fluent.middleware.keeping import Simulation
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.backends.events import Pending, RunResult

_LIVE: Final = {"tools_dict": True, "config": {"response_schema": True}}
"""Objects of a request that are not data."""


class Preview(PerAgent["list[ModelRequest]"]):
    """Agent → the requests its model would get, in call order; agents that are not asked come last.

    `str()` shows every call in the order in which they are made. An agent that is used in several places
    stands here once, under the name it was given.

    Args:
        found: the pairs.
        order: every request with its agent, in the order of the calls.
        pending: what the run stopped to wait for.

    Attributes:
        order: every request with its agent, in the order of the calls.
        pending: what the run stopped to wait for.
    """

    __slots__ = ("order", "pending")

    def __init__(
        self,
        found: Iterable[tuple[str, list[ModelRequest]]] = (),
        *,
        order: Iterable[tuple[str, ModelRequest]] = (),
        pending: Iterable[Pending] = (),
    ) -> None:
        super().__init__(found)
        self.order: tuple[tuple[str, ModelRequest], ...] = tuple(order)
        self.pending: tuple[Pending, ...] = tuple(pending)

    def to_json(self) -> str:
        """Every request in call order, as JSON; the layout is stable, and `version` says which it is."""
        calls = [
            {
                "agent": agent,
                "answer": answer_form(request),
                "request": request.model_dump(mode="json", exclude_none=True, exclude=_LIVE),
            }
            for agent, request in self.order
        ]
        silent = [agent for agent, requests in self.items() if not requests]
        pending = [{"agent": one.agent, "message": one.message} for one in self.pending]
        return json.dumps(
            {"version": 1, "calls": calls, "not_asked": silent, "pending": pending}, indent=2, default=repr
        )

    def __str__(self) -> str:
        counts: dict[str, int] = {}
        blocks: list[str] = []
        for number, (agent, request) in enumerate(self.order, 1):
            counts[agent] = counts.get(agent, 0) + 1
            of = f", call {counts[agent]} of {len(self[agent])}" if len(self[agent]) > 1 else ""
            blocks.append(f"{number}. {agent} ({request.model}){of}\n{request_text(request)}")
        if silent := [agent for agent, requests in self.items() if not requests]:
            blocks.append(f"Not asked: {', '.join(silent)}.")
        blocks += [f"Stopped: {one.agent} waits for {one.awaited}: {one.message}" for one in self.pending]
        return "\n\n".join(blocks) or "There is no agent here."


class PreviewBackend(MockBackend):
    """Scripted models under the names of the real ones, since ADK builds requests by the model's name.

    Args:
        root: the expression's node.
        responses: what some agents answer, as for `mock_backend`; the others get stand-ins.

    Raises:
        ArgumentError: there is no agent of a name in `responses`, or no answer can be made up.
    """

    def __init__(self, root: Node, responses: Mapping[str, Response]) -> None:
        agents = {agent.name: agent for agent in agents_in(root)}
        copies = resolve_names(root).origins
        _check_names(responses, dict.fromkeys([*agents, *copies]))
        made = {name: stand_in(node, root) for name, node in agents.items() if name not in responses}
        super().__init__({**made, **responses})
        self.simulation: Simulation | None = Simulation(is_preview=True)
        named = [name for name in copies if name in agents or name in responses]
        self.agents: list[str] = [name for name in named if copies[name] in agents]
        self.order: list[tuple[str, ModelRequest]] = []

    def response_to(self, key: str, asked: str) -> Response:
        """The response of an entry; agents in tools and nodes, and helper models, say that they answer."""
        words = f"(what {'a helper model' if ':' in asked else asked} answers)"
        return self._responses.get(key, in_form(asked, words))

    def note(self, key: str, request: ModelRequest) -> None:
        """Take note of when a request was made, if an agent of the tree makes it."""
        super().note(key, request)
        if key in self.agents:
            self.order.append((key, request))


def _check_names(responses: Mapping[str, Response], agents: Iterable[str]) -> None:
    for name in responses:
        if name.isidentifier() and name not in agents:  # the others are those of helper models
            near = did_you_mean(name, agents) or f" There is {', '.join(agents) or 'none'}."
            raise ArgumentError(f"preview(responses=) names {name!r}, and there is no such agent.{near}")


async def preview(
    expression: Any,
    prompt: Any,
    responses: Mapping[str, Response] | None = None,
    *,
    state: Mapping[str, Any] | None = None,
) -> Preview:
    """The exact requests of a run, with scripted models; see `Reports.preview`."""
    root: Node = expression.node
    backend = PreviewBackend(root, responses or {})
    result: RunResult[Any] = await expression.run(
        prompt,
        state=dict(state or {}),
        backend=backend,
        config=ExecutionConfig(contracts="off"),
    )
    asked = sorted(backend.agents, key=lambda agent: _first(agent, backend.order))
    found = [(agent, backend.calls.get(agent, [])) for agent in asked]
    return Preview(found, order=backend.order, pending=result.pending)


def _first(agent: str, order: list[tuple[str, ModelRequest]]) -> int:
    return next((number for number, (name, _) in enumerate(order) if name == agent), len(order))
