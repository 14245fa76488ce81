"""`T`: tools that a model can call, and wrappers around their calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr import arguments, tool_arguments
from adk_fluent.expr.base import Expr, adopted
from adk_fluent.expr.remote import RemoteAgent
from adk_fluent.ir import AuthConfig, RetryConfig, adk_objects, endpoints
from adk_fluent.ir.functions import Access, keys_of
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.ir.tools import sees_caller, tool_name
from adk_fluent.middleware.arguments import flag
from adk_fluent.middleware.retrying import Retry, Retryable
from adk_fluent.spelling import Namespace
from adk_fluent.state.delta import detached
from adk_fluent.tools import sources, wrappers
from adk_fluent.tools.spec import ArtifactTool, Tool, makes_values, object_of

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.auth.auth_credential import AuthCredential
    from google.adk.auth.auth_schemes import AuthScheme
    from google.adk.tools import BaseTool, ToolContext
    from google.adk.tools.base_toolset import BaseToolset
    from google.genai.types import VertexAISearchDataStoreSpec

    ToolLike = Callable[..., Any] | BaseTool | BaseToolset | BaseAgent | Tool | ArtifactTool
    """Every value that an agent accepts as a tool."""
    CacheKey = Callable[[dict[str, Any]], Hashable] | Callable[[dict[str, Any], ToolContext], Hashable]
    """A function that returns the cache key of a tool's call; calls with equal keys count as the same."""
    Auth = AuthConfig | tuple[AuthScheme, AuthCredential]
    """The authentication of a service: a token, or ADK's scheme and credential."""


class T(metaclass=Namespace):
    """Factories of tools. `a | b` gives an agent both tools; a wrapper around several wraps each of them.

    Example:
        >>> from adk_fluent import Agent, T
        >>> from adk_fluent.testing import call_tool, mock_backend
        >>> def weather(city: str) -> str:
        ...     "The weather in a city."
        ...     return f"Rain in {city}."
        >>> agent = Agent("guide").tools(T.timeout(weather, 5) | T.mock("news", returns="none"))
        >>> agent.ask("And?", backend=mock_backend({"guide": [call_tool("weather", city="Ulm"), "Wet."]}))
        'Wet.'
    """

    # --- sources of tools -------------------------------------------------------------------------

    @staticmethod
    def fn(
        function: Callable[..., Any],
        confirm: bool | Callable[..., bool] = False,
        *,
        reads: Iterable[str | StateFieldRef] = (),
        writes: Iterable[str | StateFieldRef] = (),
        in_thread: bool = True,
        parallel: bool = False,
    ) -> Tool:
        """Make a tool from a function; the model sees its name, docstring and parameters.

        A callable object is accepted, too, and a class whose objects are values, such as a model or a
        dataclass: the model fills in its fields, and the object is the result.
        Within a run, functions that are not async are called one after another, in the order of the calls.

        Args:
            confirm: True if a person must approve each call; or a function of the arguments that decides it.
            reads: the state keys that the function reads, for checks; like `@declares`.
            writes: the state keys that the function writes.
            in_thread: True (the default) if a function that is not async is called in a thread, so that it
                may block. `False` calls it in the event loop, which stands still until it returns.
            parallel: True if calls of it may run at the same time as other calls of the run, each in a new
                thread. The function must then be thread-safe, and must not read a state key, change it and
                write it: another call may change the key meanwhile. Async functions always run like this.

        Raises:
            ArgumentError: the value is not a function, or `in_thread=False` is given with `parallel`.

        >>> from adk_fluent import Agent, T
        >>> def note(text: str, tool_context) -> None:
        ...     tool_context.state["note"] = text
        >>> Agent("a").tools(T.fn(note, writes=["note"])).node.key_writes
        ('note',)
        """
        is_value = not isinstance(function, type) or makes_values(function)
        if not callable(function) or isinstance(function, Expr | Tool) or not is_value:
            other = cast(object, function)
            remedy = object_of(other) or tool_arguments.function_remedy(other)
            raise ArgumentError(f"T.fn() takes a function, not {arguments.describe(other)}.{remedy}")
        reading, writing = keys_of(reads, "T.fn()", "reads"), keys_of(writes, "T.fn()", "writes")
        given = Access(reading, writing) if reading or writing else None
        if not callable(confirm):
            flag(confirm, "T.fn(confirm=)")
        for name, value in {"in_thread": in_thread, "parallel": parallel}.items():
            flag(value, f"T.fn({name}=): it")
        if parallel and not in_thread:
            told = "the event loop makes one call at a time. Leave out one of the two."
            raise ArgumentError(f"T.fn(parallel=True, in_thread=False): {told}")
        return sources.FunctionTool(function, confirm, given, in_thread, parallel)

    @staticmethod
    def agent(expression: Expr[Any] | BaseAgent) -> Tool:
        """Make a tool from an agent or a whole pipeline; the model calls it with a `request`.

        The expression sees the request and the state, but not the conversation; its answer is the result of
        the call. Its changes of state stay. Its events and tokens are part of the run, under the names of its
        agents, and only the caller sees their text.

        Args:
            expression: the expression, or an agent of ADK's; it needs a name, and `.describe(...)` tells the
                model its purpose. It cannot wait for a person.

        Raises:
            ArgumentError: the value is not an expression, or has no name.
        """
        if adk_objects.is_native(expression):
            expression = adopted(expression)
        if not isinstance(expression, Expr):
            remedy = tool_arguments.agent_remedy(expression)
            raise ArgumentError(
                f"T.agent() takes an expression, not {arguments.describe(expression)}.{remedy}"
            )
        if not expression.name:
            raise ArgumentError(
                f"T.agent({expression!r}) has no name that a model could call. Give it one: .named('...')."
            )
        return sources.AgentTool(expression.node)

    @staticmethod
    def a2a(
        url: str,
        *,
        name: str | None = None,
        description: str = "",
        capabilities: Sequence[str] = (),
        auth: AuthConfig | None = None,
        timeout: float = 30.0,
        max_bytes: int = 64 * 1024 * 1024,
        retry: RetryConfig | None = None,
        allow_http: bool = False,
    ) -> Tool:
        """Make a tool from an agent that is served over A2A; a model calls it with a `request`.

        It is `T.agent(RemoteAgent(...))` with these options; the answer is the result of the call. A run
        needs the extra `a2a`.

        Args:
            url: URL of its agent card, or of the service.
            name: the name for the model; by default made from the URL.
            description: the purpose, for the model.

        Raises:
            ArgumentError: `url` is not a URL.

        >>> from adk_fluent import T
        >>> T.a2a("https://museum.example/guide")
        T.a2a('https://museum.example/guide')
        """
        return sources.RemoteTool(
            RemoteAgent(
                name or (tool_arguments.name_of_url(url) if endpoints.is_url(url) else "remote"),
                endpoint=url,
                description=description,
                capabilities=capabilities,
                auth=auth,
                timeout=timeout,
                max_bytes=max_bytes,
                retry=retry,
                allow_http=allow_http,
            ).node
        )

    @staticmethod
    def toolset(toolset: BaseToolset) -> Tool:
        """Add a toolset of ADK's or your own; it is closed after the last run that uses it.

        Raises:
            ArgumentError: the value is not a toolset.
        """
        if isinstance(toolset, type) or not hasattr(toolset, "get_tools"):
            raise ArgumentError(f"T.toolset() takes a toolset, not {arguments.describe(toolset)}.")
        return sources.Toolset(toolset)

    @staticmethod
    def google_search() -> Tool:
        """Add Google search; the provider of a Gemini model runs it (ADK's `google_search`)."""
        return sources.GoogleSearch()

    @staticmethod
    def url_context() -> Tool:
        """Let the model read web pages; the provider of a Gemini model does so (ADK's `url_context`)."""
        return sources.UrlContext()

    @staticmethod
    def vertex_ai_search(
        *,
        data_store_id: str | None = None,
        data_store_specs: list[VertexAISearchDataStoreSpec] | None = None,
        search_engine_id: str | None = None,
        filter: str | None = None,
        max_results: int | None = None,
    ) -> Tool:
        """Add search in a Vertex AI data store or engine (ADK's `VertexAiSearchTool`).

        Raises:
            ArgumentError: neither a data store nor an engine is named, or both are.
        """
        if (data_store_id is None) == (search_engine_id is None):
            raise ArgumentError("T.vertex_ai_search() takes either data_store_id= or search_engine_id=.")
        for name, value in {
            "data_store_id": data_store_id,
            "search_engine_id": search_engine_id,
            "filter": filter,
        }.items():
            arguments.optional_text(value, f"T.vertex_ai_search({name}=)")
        if max_results is not None:
            arguments.count(max_results, "T.vertex_ai_search(max_results=)")
        if not isinstance(data_store_specs, list | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            given = arguments.describe(data_store_specs)
            raise ArgumentError(f"T.vertex_ai_search(data_store_specs=) takes a list, not {given}.")
        options = {
            "data_store_id": data_store_id,
            "data_store_specs": data_store_specs,
            "search_engine_id": search_engine_id,
            "filter": filter,
            "max_results": max_results,
        }
        given = ((name, detached(value)) for name, value in options.items() if value is not None)
        return sources.VertexAiSearch(tuple(given))

    @staticmethod
    def mcp(
        server: Any,
        *,
        tool_filter: Iterable[str] | Callable[..., bool] | None = None,
        prefix: str | None = None,
    ) -> Tool:
        """Add the tools of an MCP server; needs the extra `mcp`.

        The connection is opened when a run first needs it, and closed after the last run that uses it. If the
        server does not answer, a `ToolError` names the agent and the server.

        Args:
            server: the URL of a server with Streamable HTTP (or with server-sent events, if it ends with
                `/sse`); or ADK's parameters of a connection, such as `StdioConnectionParams`.
            tool_filter: the names of the tools that the agent gets, or ADK's predicate `(tool, context)`.
            prefix: a prefix for the names of the tools, followed by an underscore, so that two servers may
                have tools of the same name.

        Raises:
            ArgumentError: `server` is neither.

        >>> from adk_fluent import T
        >>> T.mcp("http://127.0.0.1:8000/mcp", tool_filter=["read_file"], prefix="files")
        T.mcp(http://127.0.0.1:8000/mcp, tool_filter=('read_file',), prefix='files')
        """
        if isinstance(server, str):
            usable = server.startswith(("http://", "https://"))
        else:
            usable = any(hasattr(server, name) for name in ("url", "command", "server_params"))
        if not usable or isinstance(server, type):
            raise ArgumentError(
                "T.mcp() takes the URL of a server (http://... or https://...), or ADK's parameters of a "
                f"connection such as StdioConnectionParams(...), not {arguments.describe(server)}."
            )
        return sources.Mcp(
            server,
            tool_arguments.tool_filter(tool_filter, "T.mcp()"),
            tool_arguments.prefix(prefix, "T.mcp()"),
        )

    @staticmethod
    def openapi(
        spec: Mapping[str, Any] | str | Path,
        *,
        tool_filter: Iterable[str] | Callable[..., bool] | None = None,
        auth: Auth | None = None,
        allow_private_network_access: bool = False,
    ) -> Tool:
        """Add a tool for each operation of a service that an OpenAPI specification describes.

        Args:
            spec: the specification: a dict, text in JSON or YAML, or the `Path` of a file.
            tool_filter: the operations that the agent gets, by the names that ADK gives to them: the
                `operationId` in snake case; or ADK's predicate `(tool, context)`.
            auth: `AuthConfig(type="bearer", token=...)`, or `type="api_key"`, which is sent in the header
                `X-API-Key`; or ADK's pair of scheme and credential. It is never shown or stored.
            allow_private_network_access: True if calls may reach this machine and private networks; newer
                versions of ADK refuse such calls otherwise.

        Raises:
            ArgumentError: `spec` or `auth` has another type, or `spec` has no paths. ADK reads a file and
                reports other faults of a specification when the agent is built.
        """
        pair = isinstance(auth, tuple) and len(auth) == 2
        if not (auth is None or isinstance(auth, AuthConfig) or pair):
            raise ArgumentError(
                "T.openapi(auth=) takes an AuthConfig, or ADK's (scheme, credential), not "
                f"{type(auth).__name__}."
            )
        return sources.OpenApi(
            tool_arguments.specification(spec),
            tool_arguments.tool_filter(tool_filter, "T.openapi()"),
            None if auth is None else sources.Credential(auth),
            flag(allow_private_network_access, "T.openapi(allow_private_network_access=)"),
        )

    @staticmethod
    def skill(path: str | Path) -> Tool:
        """Add a skill: a folder with a `SKILL.md`, whose instructions the model loads when it needs them.

        It needs a google-adk that loads skills from folders, as 1.39 and 2.x do.
        """
        if not isinstance(path, str | Path) or not str(path).strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"T.skill() takes the path of a folder, not {arguments.describe(path)}.")
        return sources.Skill(str(path))

    @staticmethod
    def mock(tool: str | ToolLike, *, returns: Any = None, side_effect: Any = None) -> Tool:
        """Make a tool stub, for tests and for tools that do not exist yet.

        Args:
            tool: the name for the model; or the tool that the stub replaces, with its schema.
            returns: the result of each call.
            side_effect: instead of `returns`: a function of the call's arguments; an error to raise; or a
                list of results and errors, one per call, of which the last repeats. If `tool` is a name, the
                model sees the parameters of the function.

        Raises:
            ArgumentError: the name is not an identifier, both results are given, or the list is empty.

        >>> from adk_fluent import Agent, T
        >>> from adk_fluent.testing import call_tool, mock_backend
        >>> agent = Agent("a").tools(T.mock("search", returns=["x"]))
        >>> agent.ask("?", backend=mock_backend({"a": [call_tool("search", query="q"), "Found x."]}))
        'Found x.'
        """
        if isinstance(tool, str):
            if not tool.isidentifier():
                raise ArgumentError(f"T.mock({tool!r}): a model calls a tool by an identifier.")
        else:
            tool_arguments.check_single(tool, "T.mock()")
        if returns is not None and side_effect is not None:
            raise ArgumentError("T.mock() takes returns= or side_effect=, not both.")
        if isinstance(side_effect, list | tuple):
            side_effect = tuple(cast("Iterable[object]", side_effect))
            if not side_effect:
                raise ArgumentError("T.mock(side_effect=[]) has no result to give.")
        elif side_effect is not None and not (
            callable(side_effect) or isinstance(side_effect, BaseException)
        ):
            raise ArgumentError(
                "T.mock(side_effect=) takes a function, an error or a list, not "
                f"{arguments.describe(side_effect)}."
            )
        return sources.Mock(tool, detached(returns), side_effect)

    # --- wrappers around calls --------------------------------------------------------------------

    @staticmethod
    def confirm(tool: ToolLike, when: Callable[..., bool] | None = None) -> Tool:
        """Stop before each call until a person approves it; if the person refuses, the model is informed.

        The run ends with `RunResult.pending`, and `resume` continues it, also in another process.

        Args:
            tool: the tool, or several.
            when: a function of the call's arguments and of injected resources, by name; it returns True if a
                person must approve the call. By default, every call needs approval.
        """
        if when is not None and (not callable(when) or isinstance(when, Expr)):
            given = arguments.describe(cast(object, when))
            raise ArgumentError(f"T.confirm(when=) takes a function of the arguments, not {given}.")
        return tool_arguments.wrapped(tool, lambda one: wrappers.ConfirmedTool(one, when), "T.confirm()")

    @staticmethod
    def timeout(tool: ToolLike, seconds: float) -> Tool:
        """Limit the time of each call; then the run ends with a `ToolError` unless something catches it.

        A function that is not async runs in a separate thread and cannot be stopped there: it continues after
        the time limit, and its result is dropped.
        """
        limit = arguments.positive_number(seconds, "T.timeout()")
        return tool_arguments.wrapped(tool, lambda one: wrappers.TimedTool(one, limit), "T.timeout()")

    @staticmethod
    def cache(
        tool: ToolLike,
        *,
        ttl: float | None = None,
        key: CacheKey | None = None,
    ) -> Tool:
        """Return the earlier result for the same arguments, also in later runs of the same expression.

        If there is an earlier result, the tool is not called, so its other effects, such as writing state, do
        not happen. Errors are not cached. The cache holds the 1,000 results that were used last. A new
        expression has a new cache.

        Some tools need a `key`, because their result depends on more than their arguments: tools that take
        ADK's context, expressions (`T.agent`, `T.a2a`), and tools with a resource of a session or a run.

        Args:
            tool: the tool, or several.
            ttl: lifetime of a result in seconds.
            key: a function of the arguments, or of the arguments and ADK's `ToolContext`, that returns the
                cache key; by default all arguments.

        Raises:
            ArgumentError: `ttl` or `key` has another type, or the tool needs a `key` and has none.

        >>> from adk_fluent import T
        >>> def balance(account: str, tool_context) -> float:
        ...     return tool_context.state[f"user:{account}"]
        >>> T.cache(balance, key=lambda args, context: (context.user_id, args["account"]))
        T.cache(balance, key=<lambda>)
        """
        kept = None if ttl is None else arguments.positive_number(ttl, "T.cache(ttl=)")
        if key is not None and (not callable(key) or isinstance(key, Expr)):
            given = arguments.describe(cast(object, key))
            raise ArgumentError(f"T.cache(key=) takes a function of the arguments, not {given}.")
        if inspect.iscoroutinefunction(key):
            raise ArgumentError(
                "T.cache(key=) takes a plain function, not an async one: it is never awaited."
            )

        def cached(one: object) -> Tool:
            if key is None and sees_caller(one):
                raise ArgumentError(wrappers.needs_key(tool_name(one)))
            return wrappers.CachedTool(one, kept, key)

        return tool_arguments.wrapped(tool, cached, "T.cache()")

    @staticmethod
    def retry(
        tool: ToolLike,
        attempts: int = 3,
        *,
        backoff_base: float = 1.0,
        on: Retryable | None = None,
        jitter: bool = True,
    ) -> Tool:
        """Call a tool again when a call fails, after a wait, as the middleware `retry(tools=True)` does.

        A tool that declares `@declares(idempotent=False)`, or that an MCP server marks as not idempotent, is
        not called again. If all attempts fail, the last error is raised. State changes of a failed attempt
        stay.

        Args:
            attempts: most calls, including the first one.
            backoff_base: seconds of the first wait. Each wait doubles, up to a minute. If the error names a
                longer time (`retry-after`), the wait is that long.
            on: the errors to retry: a class, a tuple of classes, or a function of the error. By default the
                temporary ones: timeouts, broken connections, HTTP 408, 409, 425, 429 and 5xx.
            jitter: True if the waits vary at random.

        Raises:
            ArgumentError: a number is out of range, or `on` has another type.
        """
        times = arguments.count(attempts, "T.retry()")
        Retry(times, backoff_base, on, tools=True, jitter=jitter)  # it checks the other arguments
        return tool_arguments.wrapped(
            tool, lambda one: wrappers.RetriedTool(one, times, backoff_base, on, jitter), "T.retry()"
        )

    @staticmethod
    def transform(
        tool: ToolLike,
        *,
        pre: Callable[[dict[str, Any]], Any] | None = None,
        post: Callable[[Any], Any] | None = None,
    ) -> Tool:
        """Change a tool's arguments and result; the model sees the tool's own name and parameters.

        Args:
            tool: the tool, or several.
            pre: a function from the arguments, as a dict, to the arguments for the tool; may be async.
            post: a function from the result to the result for the model; may be async.

        Raises:
            ArgumentError: neither is given, or one is not a function.
        """
        if pre is None and post is None:
            raise ArgumentError("T.transform() needs pre= or post=.")
        if pre is not None:
            arguments.unary(
                pre, "T.transform(pre=)", "a function of the arguments, which it gets as one dict"
            )
        if post is not None:
            arguments.unary(post, "T.transform(post=)", "a function of the result")
        return tool_arguments.wrapped(
            tool, lambda one: wrappers.TransformedTool(one, pre, post), "T.transform()"
        )
