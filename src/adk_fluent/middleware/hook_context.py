"""The context of a hook: the run, the agent and the state that a call of middleware is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.tools.base_tool import BaseTool


class State(Protocol):
    """The state of the session, as a hook reads and writes it."""

    def __getitem__(self, key: str) -> Any:
        """The value of a key.

        Raises:
            KeyError: it is not set.
        """
        ...

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a key; it is stored with the session, unless it starts with `temp:`."""
        ...

    def __contains__(self, key: str) -> bool: ...

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default` where it is not set."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """All keys and values; changing the dict changes nothing."""
        ...


class Context(Protocol):
    """Where a hook is called: the same on every supported version of ADK."""

    @property
    def state(self) -> State:
        """The state of the session, to read and to write."""
        ...

    @property
    def agent_name(self) -> str:
        """The agent, or step, that this is about: of a run the first one, of an event its author."""
        ...

    @property
    def invocation_id(self) -> str:
        """The run; that of an agent inside a tool is its own."""
        ...

    @property
    def session_id(self) -> str:
        """The session; likewise."""
        ...

    @property
    def user_id(self) -> str:
        """Whose session it is."""
        ...

    @property
    def operation(self) -> str | None:
        """What a model is asked for beside its agent's own work, such as `summarize` for a `C.summarize`.

        `None` for everything else.
        """
        ...

    @property
    def streaming(self) -> bool:
        """Whether the model is asked for pieces of its answer as it makes them."""
        ...

    @property
    def live(self) -> bool:
        """Whether this is a live conversation: no hook around models is called for what is said there."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether scripts, stand-ins or a recording answer in the place of models.

        So it is on `mock_backend`, unless with `stores="real"`, on `DryRunBackend` and `ReplayerBackend`, and
        in `preview()`. Such a run must
        write nothing that live runs read: keep values with `Middleware.shared`, and leave other stores alone.
        """
        ...

    @property
    def native(self) -> CallbackContext | InvocationContext:
        """ADK's own context.

        A `ToolContext` around tools, a `CallbackContext` around models and agents, and the
        `InvocationContext` around runs and events.
        """
        ...

    @property
    def tool(self) -> BaseTool | None:
        """The native tool around tools, else `None`."""
        ...
