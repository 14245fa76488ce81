"""`DryRunBackend`: what would run, with which requests, at which cost; no model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from adk_fluent.backends.adk.api import Response, scripting
from adk_fluent.backends.mock import MockBackend
from adk_fluent.backends.stand_ins import stand_in
from adk_fluent.cost.prices import Tokens, cost_of
from adk_fluent.cost.traffic import TrafficAssumptions
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode, agent_of
from adk_fluent.middleware.arguments import positive
from adk_fluent.middleware.messages import tokens_in

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest


class DryRunBackend(MockBackend):
    """ADK's real runner with stand-ins for models, to see what would happen.

    An agent whose answer is not given says the least that fits: the smallest instance of the type it returns,
    the first value that a route asks for, or that this is its answer. So no model is asked and no tool is
    called; routes, transforms, contexts and callbacks really run.

    Args:
        responses: what some agents answer, as for `mock_backend`.
        output_tokens: tokens that an answer is taken to have where costs are estimated; by default those of
            `TrafficAssumptions`.
        services: as for `ADKBackend`.

    Attributes:
        calls: agent → the requests that its model would get, in order.

    Raises:
        ArgumentError: when run: an agent returns a type of which no instance can be made up.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent, Route
        >>> desk = Route("kind").eq("bill", Agent("billing")).otherwise(Agent("other"))
        >>> backend = DryRunBackend()
        >>> _ = asyncio.run((Agent("sort").writes("kind") >> desk).run("My bill is wrong.", backend=backend))
        >>> list(backend.calls), backend.calls["billing"][0].contents[0].parts[0].text
        (['sort', 'billing'], 'My bill is wrong.')
    """

    def __init__(
        self,
        responses: Mapping[str, Response] | None = None,
        *,
        output_tokens: float | None = None,
        **services: Any,
    ) -> None:
        super().__init__(responses, **services)
        self._output_tokens = (
            TrafficAssumptions().avg_output_tokens
            if output_tokens is None
            else positive(output_tokens, "DryRunBackend(output_tokens=)", zero=True)
        )
        self._known: dict[str, tuple[AgentNode, Node]] = {}
        self._remote: set[str] = set()

    def prepare(self, node: Node) -> Node:
        """The tree, whose agents are known from now on."""
        for each in walk(node):
            if (agent := agent_of(each)) is not None:
                self._known[each.name] = (agent, node)
            elif isinstance(each, RemoteAgentNode):  # whose answer is scripted as one of an agent
                self._known[each.name] = (scripting.agent_like(each), node)
                self._remote.add(each.name)
        return super().prepare(node)

    def response_to(self, key: str, asked: str) -> Response:
        """The response of an entry, or what stands in for it."""
        given = self._responses.get(key)
        if given is not None:
            return given
        if key in self._known:
            return stand_in(*self._known[key])
        return f"(what {'a helper model' if ':' in asked else asked} answers)"

    @property
    def costs(self) -> Mapping[str, Decimal | None]:
        """Agent → what its calls would cost in USD, estimated; `None` where a price is not known.

        That holds of remote agents: what a call costs the other side, nobody here knows. Of others, a request
        counts a quarter of its characters as tokens, an answer `output_tokens`.

        Raises:
            MissingExtraError: prices are not given, and the extra `cost` is not installed.
        """
        return {
            agent: None if agent in self._remote else _sum(map(self._cost, requests))
            for agent, requests in self.calls.items()
        }

    @property
    def estimated_cost(self) -> Decimal | None:
        """What all of it would cost in USD; `None` where a price is not known.

        Raises:
            MissingExtraError: as for `costs`.
        """
        return _sum(self.costs.values())

    def _cost(self, request: LlmRequest) -> Decimal | None:
        return cost_of(request.model or "", Tokens(tokens_in(request), round(self._output_tokens)))


def _sum(costs: Any) -> Decimal | None:
    total = Decimal(0)
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
