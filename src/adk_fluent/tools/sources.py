"""The operations that make tools: of functions, agents, servers and specifications, and ADK's own tools."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import PerItem
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import UNKNOWN_ACCESS, Access
from adk_fluent.ir.nodes import RemoteAgentNode
from adk_fluent.ir.tools import confirms, tool_access, tool_name
from adk_fluent.tools.spec import Stored, Tool

if TYPE_CHECKING:
    from pathlib import Path

ToolFilter = tuple[str, ...] | Callable[..., bool] | None
"""The tools of a set that an agent gets: names, or ADK's predicate `(tool, context) -> bool`; `None` for all.
"""


@frozen
class FunctionTool(Tool):
    """A function as a tool, with the options for its calls.

    Attributes:
        function: the function itself.
        require_confirmation: True if a person must approve each call; or a function of the arguments that
            returns it.
        declared: the state keys that the function reads and writes, if its source does not show them.
        in_thread: call it in a thread, if it is not async.
        parallel: let several calls of it run at the same time, if it is not async.
    """

    op: ClassVar[str] = "fn"

    function: Callable[..., Any]
    require_confirmation: bool | Callable[..., bool] = False
    declared: Access | None = None
    in_thread: bool = True
    parallel: bool = False

    @property
    def called(self) -> str | None:
        return tool_name(self.function)

    @property
    def access(self) -> Access:
        return self.declared or tool_access(self.function)

    @property
    def asks(self) -> bool:
        return self.require_confirmation is not False or confirms(self.function)

    @property
    def held(self) -> tuple[object, ...]:
        return (self.function,)


@frozen
class AgentTool(Tool):
    """An expression as a tool: it takes a request and returns its answer."""

    op: ClassVar[str] = "agent"
    __slots__ = ("_access",)

    body: Node

    @property
    def called(self) -> str | None:
        return self.body.name

    @property
    def agents(self) -> Node:
        return self.body

    @property
    def access(self) -> Access:
        found: Access | None = getattr(self, "_access", None)
        if found is None:
            found = access_of(self.body)
            object.__setattr__(self, "_access", found)
        return found

    def __repr__(self) -> str:
        return f"T.agent({self.body.name})"


@frozen
class RemoteTool(AgentTool):
    """An agent that another process serves over A2A, as a tool."""

    op: ClassVar[str] = "a2a"

    body: RemoteAgentNode

    def __repr__(self) -> str:
        from adk_fluent._redaction import safe_url

        return f"T.a2a({safe_url(self.body.endpoint)!r})"


def access_of(root: Node) -> Access:
    """The state keys that a tree shares with its caller: keys that it needs from outside, and its writes."""
    nodes = list(walk(root))
    writes = frozenset(key for node in nodes for key in node.key_writes)
    own = writes | {runs.item_key for node in nodes if isinstance(runs := node.runs, PerItem)}
    needed = {read.key for node in nodes for read in node.key_reads() if read.level == "required"}
    reads_known = all(node.access.reads_known for node in nodes)
    writes_known = all(node.access.writes_known for node in nodes)
    return Access(frozenset(needed - own), writes, reads_known, writes_known)


@frozen
class Toolset(Tool):
    """A toolset of ADK's, or a custom one. Its tools are known only during a run."""

    op: ClassVar[str] = "toolset"

    toolset: Any

    @property
    def access(self) -> Access:
        return tool_access(self.toolset)

    @property
    def asks(self) -> bool:
        return confirms(self.toolset)

    @property
    def held(self) -> tuple[object, ...]:
        return (self.toolset,)


@frozen
class GoogleSearch(Tool):
    """ADK's Google search, which the provider of the model runs."""

    op: ClassVar[str] = "google_search"

    @property
    def called(self) -> str | None:
        return "google_search"


@frozen
class UrlContext(Tool):
    """ADK's tool that reads web pages, which the provider of the model runs."""

    op: ClassVar[str] = "url_context"

    @property
    def called(self) -> str | None:
        return "url_context"


@frozen
class VertexAiSearch(Tool):
    """ADK's search in a Vertex AI data store, which the provider of the model runs.

    Attributes:
        options: the arguments of ADK's `VertexAiSearchTool`.
    """

    op: ClassVar[str] = "vertex_ai_search"
    leading: ClassVar[int] = 0

    options: tuple[tuple[str, Any], ...] = ()

    @property
    def called(self) -> str | None:
        return str(dict(self.options).get("name") or "vertex_ai_search")


class Credential:
    """A secret value: it compares like the value in it, its `repr` is `***`, and it cannot be stored."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Credential) and self.held == other.held

    def __hash__(self) -> int:
        return hash(Credential)

    def __repr__(self) -> str:
        return "***"


@frozen
class Mcp(Tool):
    """The tools of a server that speaks the Model Context Protocol.

    The analysis does not know which state keys they touch. They do not see the state of a run.

    Attributes:
        server: the URL of a server, or ADK's parameters of a connection.
        tool_filter: the tools that the agent gets; `None` for all.
        prefix: a prefix for the names of the tools; an underscore separates it from the name.
    """

    op: ClassVar[str] = "mcp"
    __slots__ = ("_toolset",)  # the backend keeps its toolset here, because each value opens one connection

    server: Any
    tool_filter: ToolFilter = None
    prefix: str | None = None

    @property
    def access(self) -> Access:
        return UNKNOWN_ACCESS

    @property
    def address(self) -> str:
        """The address of the server: its URL without secrets, or the command that starts it."""
        from adk_fluent._redaction import safe_url

        if isinstance(self.server, str):
            return safe_url(self.server)
        started: Any = getattr(self.server, "server_params", self.server)
        command = getattr(started, "command", None)
        return safe_url(getattr(self.server, "url", None) or command or type(self.server).__name__)

    @property
    def name(self) -> str:
        """The name of the toolset in messages."""
        return f"mcp({self.address})"

    def as_stored(self) -> Frozen:
        """Store the parameters of a connection, unless they hold headers or an environment.

        Those often contain secrets, and a `Credential` cannot be stored.
        """
        stored = super().as_stored()
        started: Any = getattr(self.server, "server_params", self.server)
        if not (getattr(self.server, "headers", None) or getattr(started, "env", None)):
            return stored
        return Stored(self.op, (("server", Credential(self.server)), *self.params[1:]))

    def __repr__(self) -> str:
        shown = [self.address]
        shown += [f"tool_filter={self.tool_filter!r:.60}"] if self.tool_filter is not None else []
        shown += [f"prefix={self.prefix!r}"] if self.prefix is not None else []
        return f"T.mcp({', '.join(shown)})"


@frozen
class OpenApi(Tool):
    """A tool for each operation of a service that an OpenAPI specification describes.

    Attributes:
        spec: the specification: a dict, text in JSON or YAML, or the path of a file.
        tool_filter: the operations that the agent gets, by the names that ADK gives to them.
        auth: the credential that the service asks for; see `T.openapi`.
        allow_private_network_access: True if the service may be in a private network or on this machine.
    """

    op: ClassVar[str] = "openapi"

    spec: dict[str, Any] | str | Path
    tool_filter: ToolFilter = None
    auth: Credential | None = None
    allow_private_network_access: bool = False

    @property
    def name(self) -> str:
        """The name of the toolset in messages."""
        return f"openapi({self.title})"

    @property
    def title(self) -> str:
        """The title of the specification, or the path of its file."""
        if isinstance(self.spec, dict):
            info: dict[str, Any] = self.spec.get("info") or {}
            return str(info.get("title") or "a specification")
        return str(self.spec) if isinstance(self.spec, PathLike) else "a specification"

    def __repr__(self) -> str:
        more = (f"{name}={value!r:.60}" for name, value in self.params[1:] if name in self.given)
        return f"T.openapi({', '.join([self.title, *more])})"


@frozen
class Skill(Tool):
    """A skill: a folder of instructions that a model loads when it needs them.

    Attributes:
        path: the folder; it contains a file `SKILL.md`.
    """

    op: ClassVar[str] = "skill"

    path: str

    @property
    def name(self) -> str:
        """The name of the skill in messages."""
        return f"skill({self.path})"


@frozen
class Mock(Tool):
    """A tool stub: it replaces a tool in tests, or one that is not written yet.

    Attributes:
        tool: the name that the model sees; or the tool that it replaces, whose schema it then has.
        returns: the result of each call.
        side_effect: used instead of `returns`: a function of the call's arguments, an error to raise, or a
            list of results. Each call returns the next result of the list; the last one repeats.
    """

    op: ClassVar[str] = "mock"

    tool: object
    returns: Any = None
    side_effect: Any = None

    @property
    def called(self) -> str | None:
        return self.tool if isinstance(self.tool, str) else tool_name(self.tool)

    @property
    def access(self) -> Access:
        return tool_access(self.side_effect) if hasattr(self.side_effect, "__code__") else Access()
