"""`MockBackend`: ADK's real runner with a scripted model per agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from adk_fluent.backends.adk.backend import ADKBackend
from adk_fluent.backends.adk.scripted import Response, Script, ScriptedLlm, Single, ToolCall, merge_state
from adk_fluent.errors import ArgumentError, MockError, did_you_mean
from adk_fluent.ir.base import UNSET, Node, rewrite
from adk_fluent.ir.nodes import AgentNode

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest


class MockBackend(ADKBackend):
    """ADK's real runner, with a scripted model in place of each agent's own.

    Args:
        responses: agent name → response. A response is text; a dict (JSON text, and merged into state when
            the agent has no `returns`); a list of responses, one per call; an exception to raise;
            `call_tool(...)`; a `Content` or `LlmResponse`; an async iterable of text, streamed; or a function
            of the `LlmRequest` that gives any of these. What a context spec asks a helper model is scripted
            under `"agent:operation"`, such as `"writer:summarize"`, or under the name of the model that the
            spec names; the first of the two that is there counts, for `calls` too.
        default: the response of agents without an entry; without it such an agent raises `MockError`.
        exhaust: what follows the last of a list: `repeat` it, or raise an `error`.
        services: session, artifact, memory and credential service, as for `ADKBackend`.

    Attributes:
        calls: agent name → the requests its model got, in order: exactly what a real model would have seen.
    """

    def __init__(
        self,
        responses: Mapping[str, Response] | None = None,
        *,
        default: Response | None = None,
        exhaust: Literal["repeat", "error"] = "repeat",
        **services: Any,
    ) -> None:
        super().__init__(**services)
        self._responses = _script(responses or {})
        if exhaust not in ("repeat", "error"):
            raise ArgumentError(f"mock_backend(exhaust=) is 'repeat' or 'error', not {exhaust!r:.40}.")
        self._default = default
        self._exhaust: Literal["repeat", "error"] = exhaust
        self.calls: dict[str, list[LlmRequest]] = {}

    def model_for(self, node: AgentNode, origin: str) -> BaseLlm:
        """A scripted model for the agent; uses of one agent in several places share its script."""
        key = node.name if node.name in self._responses else origin
        response = self._responses.get(key, self._default)
        if response is None:
            response = self._unknown(origin)
        script = Script(origin, response, self._exhaust, self.calls.setdefault(key, []))
        return ScriptedLlm.of(
            script, merge_state=node.output_schema in (UNSET, None) and not node.written_fields
        )

    def prepare(self, node: Node) -> Node:
        """The tree with what makes a scripted dict reach the state, too."""
        return rewrite(node, _merging)

    def helper_for(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> BaseLlm:
        """A scripted model for what an agent's context spec asks."""
        name = model if isinstance(model, str) else getattr(model, "model", None)
        asked = f"{origin}:{operation}"
        key = name if name in self._responses and asked not in self._responses else asked
        response = self._responses.get(key, self._default)
        if response is None:
            response = self._unknown(asked)
        return ScriptedLlm.of(
            Script(key, response, self._exhaust, self.calls.setdefault(key, [])), merge_state=False
        )

    def _unknown(self, agent: str) -> Callable[[LlmRequest], Single]:
        def refuse(request: LlmRequest) -> Single:
            raise MockError(
                f"No scripted response for agent {agent!r}.{did_you_mean(agent, self._responses)} "
                f"Add {agent!r} to mock_backend({{...}}), or give default=."
            )

        return refuse


def _script(responses: object) -> dict[str, Response]:
    if isinstance(responses, Mapping):
        script = cast("Mapping[object, Response]", responses)
        if all(isinstance(name, str) for name in script):
            return cast("dict[str, Response]", dict(script))
    raise ArgumentError(f"mock_backend() takes a mapping of agent names to responses, not {responses!r:.60}.")


def _merging(node: Node) -> Node:
    if not isinstance(node, AgentNode):
        return node
    return node.replace(after_model_callback=(merge_state, *node.after_model_callback))


def mock_backend(
    responses: Mapping[str, Response] | None = None,
    *,
    default: Response | None = None,
    exhaust: Literal["repeat", "error"] = "repeat",
    **services: Any,
) -> MockBackend:
    """A `MockBackend`: run a pipeline with scripted models.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("classifier").writes("intent") >> Agent("helper").instruct("Intent: {intent}")
        >>> backend = mock_backend({"classifier": "billing", "helper": "Let us look at your bill."})
        >>> asyncio.run(pipeline.run("My bill is wrong", backend=backend)).text
        'Let us look at your bill.'
    """
    return MockBackend(responses, default=default, exhaust=exhaust, **services)


def call_tool(name: str, **args: Any) -> ToolCall:
    """A scripted function call; see `mock_backend`."""
    return ToolCall(name, args)
