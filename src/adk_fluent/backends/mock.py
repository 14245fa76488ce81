"""`MockBackend`: ADK's real runner with a scripted model per agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Never, cast

from adk_fluent.backends.adk.api import (
    ModelRequest,
    Response,
    Script,
    ScriptedLlm,
    ToolCall,
    check_script,
    injected_names,
    scripting,
)
from adk_fluent.errors import ArgumentError, MockError
from adk_fluent.ir.base import UNSET, Node, walk
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode
from adk_fluent.middleware.arguments import of_type
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.answers import answered_fields

if TYPE_CHECKING:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest

    from adk_fluent.backends.adk.api import Answering
    from adk_fluent.middleware.keeping import Simulation


class MockBackend(scripting.ScriptedBackend):
    """ADK's real runner, with a scripted model in place of each agent's own.

    That holds for the agents inside tools, such as ADK's `AgentTool`, too. What the runs store is kept with
    this backend alone, unless services are given.

    Args:
        responses: agent name → response. A response is text; a dict (JSON text, and merged into state when
            the agent has no `returns`; the check knows of keys that the agent declares alone, so a run that
            needs others takes `ExecutionConfig(contracts="log")`); a list of responses, one per call, in
            which a list of texts and `call_tool(...)` is one response with several parts; an exception to
            raise; `call_tool(...)`; a `Content` or `LlmResponse`; an async iterable of text or
            `LlmResponse`s, streamed; or a function
            of the `LlmRequest` that gives any of these. What a context spec asks a
            helper model is scripted under `"agent:operation"`, such as `"writer:summarize"`, or under the
            name of the model that the spec names; the first of the two that is there counts, for `calls` too.
            A model that a middleware names is scripted under its name, or else answers what the agent's own
            would.
        default: the response of agents without an entry; without it such an agent raises `MockError`.
        exhaust: what follows the last of a list: `repeat` it, or raise an `error`.
        remotes: whether remote agents are `scripted` by their names, or `real`: called over the network.
        stores: where middleware keeps what outlives a run, such as answers of a `cache`: in stores of its
            `own`, for as long as this backend lives, or in the `real` ones, as live runs do.
        resources: name → what functions are given in the place of what `.inject` says.
        services: session, artifact, memory and credential service, as for `ADKBackend`.

    Attributes:
        calls: agent name → the requests its model got, in order: exactly what a real model would have seen.
            Each is an `LlmRequest` with `.system`, `.texts` and `.tools`, which tests ask for most. Agents
            that were not asked are not in it, but `calls[name]` of one is an empty list.

    Raises:
        MockError: a response is none of these.
    """

    def __init__(
        self,
        responses: Mapping[str, Response] | None = None,
        *,
        default: Response | None = None,
        exhaust: Literal["repeat", "error"] = "repeat",
        resources: Mapping[str, object] | None = None,
        remotes: Literal["scripted", "real"] = "scripted",
        stores: Literal["own", "real"] = "own",
        **services: Any,
    ) -> None:
        super().__init__(**services)
        if stores not in ("own", "real"):
            raise ArgumentError(f"mock_backend(stores=) is 'own' or 'real', not {stores!r:.40}.")
        if stores == "real":
            self.simulation: Simulation | None = None
        if remotes not in ("scripted", "real"):
            raise ArgumentError(f"mock_backend(remotes=) is 'scripted' or 'real', not {remotes!r:.40}.")
        self._remotes: Literal["scripted", "real"] = remotes
        of_type(resources, Mapping | None, "mock_backend(resources=)", "a mapping of names to resources")
        self._overrides = dict(resources or {})
        self._responses = _script({} if responses is None else responses, type(self).__name__)
        if exhaust not in ("repeat", "error"):
            raise ArgumentError(f"mock_backend(exhaust=) is 'repeat' or 'error', not {exhaust!r:.40}.")
        if default is not None:
            check_script("default=", default)
        self._default = default
        self._exhaust: Literal["repeat", "error"] = exhaust
        self._logs: dict[str, _Log] = {}
        self.calls: dict[str, list[ModelRequest]] = _Calls(self._logs)

    def model_for(self, node: AgentNode, origin: str, model: str | BaseLlm | None = None) -> BaseLlm:
        """A scripted model for the agent; uses of one agent in several places share its script."""
        key = node.name if node.name in self._responses else origin
        merge = node.output_schema in (UNSET, None) and not answered_fields(node)
        name = scripting.name_of_model(model)
        keys = {field.name: field.key for field in node.written_fields}
        return ScriptedLlm.of(self._playing(key, origin), merge_state=merge, name=name, keys=keys)

    def helper_for(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> BaseLlm:
        """A scripted model for what an agent's context spec asks."""
        name = model if isinstance(model, str) else getattr(model, "model", None)
        asked = f"{origin}:{operation}"
        key = name if name in self._responses and asked not in self._responses else asked
        return ScriptedLlm.of(self._playing(key, key), merge_state=False, name=name or "")

    def another_model(self, node: AgentNode, origin: str, model: str | BaseLlm) -> BaseLlm:
        """A scripted model for one that a middleware names: the entry of that name, or that of the agent."""
        name = model if isinstance(model, str) else model.model
        if name not in self._responses:
            return self.model_for(node, origin, model)
        return ScriptedLlm.of(self._playing(name, name), merge_state=False, name=name)

    def remote_for(self, node: RemoteAgentNode, origin: str) -> BaseLlm | Answering | None:
        """A scripted model in place of another process, unless that is to be real."""
        return None if self._remotes == "real" else super().remote_for(node, origin)

    def prepare(self, node: Node) -> Node:
        """The tree, in whose tools no agent has a model of its own.

        Raises:
            ArgumentError: nothing in it is given a resource that this backend has for it.
        """
        injected = injected_names(walk(node))
        for name in self._overrides:
            if name not in injected:
                hint = did_you_mean(name, injected)
                raise ArgumentError(f"mock_backend(resources=): nothing injects {name!r}.{hint}")
        return super().prepare(node)

    def note(self, key: str, request: ModelRequest) -> None:
        """Take note that the entry `key` was asked for the first time, or again."""
        self.calls.setdefault(key, self._logs[key])

    def response_to(self, key: str, asked: str) -> Response:
        """The response of an entry; `asked` is who asks."""
        response = self._responses.get(key, self._default)
        return self._unknown(asked) if response is None else response

    def _playing(self, key: str, asked: str) -> Script:
        log = self._logs.setdefault(key, _Log(partial(self.note, key)))
        return Script(asked, self.response_to(key, asked), self._exhaust, log)

    def _unknown(self, agent: str) -> Callable[[LlmRequest], Never]:
        def refuse(request: LlmRequest) -> Never:
            raise MockError(
                f"No scripted response for agent {agent!r}.{did_you_mean(agent, self._responses)} "
                f"Add {agent!r} to mock_backend({{...}}), or give default=."
            )

        return refuse


class _Calls(dict[str, list[ModelRequest]]):
    """The requests of the agents that were asked; those of the others are empty lists."""

    def __init__(self, known: Mapping[str, list[ModelRequest]]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, agent: str) -> list[ModelRequest]:
        if agent in self._known:
            return []
        raise KeyError(f"No agent {agent!r} was run.{did_you_mean(agent, self._known)}")


class _Log(list[ModelRequest]):
    """The requests that one entry answers."""

    def __init__(self, note: Callable[[ModelRequest], None]) -> None:
        super().__init__()
        self._note = note

    def append(self, request: ModelRequest) -> None:
        """Add a request, and tell the backend."""
        super().append(request)
        self._note(request)


def _script(responses: object, of: str) -> dict[str, Response]:
    if isinstance(responses, Mapping):
        script = cast("Mapping[object, Response]", responses)
        if all(isinstance(name, str) for name in script):
            for name, response in script.items():
                check_script(str(name), response)
            return cast("dict[str, Response]", dict(script))
    called = "mock_backend" if of == "MockBackend" else of
    raise ArgumentError(f"{called}() takes a mapping of agent names to responses, not {responses!r:.60}.")


def mock_backend(
    responses: Mapping[str, Response] | None = None,
    *,
    default: Response | None = None,
    exhaust: Literal["repeat", "error"] = "repeat",
    resources: Mapping[str, object] | None = None,
    remotes: Literal["scripted", "real"] = "scripted",
    stores: Literal["own", "real"] = "own",
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
    return MockBackend(
        responses,
        default=default,
        exhaust=exhaust,
        resources=resources,
        remotes=remotes,
        stores=stores,
        **services,
    )


def call_tool(name: str, /, **args: Any) -> ToolCall:
    """A scripted function call; see `mock_backend`."""
    if not isinstance(cast(object, name), str):
        raise ArgumentError(f"call_tool() takes the name of a tool, not {name!r:.40}.")
    return ToolCall(name, args)
