"""`T`: what a model can call, and what is done around the calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from adk_fluent._namespace import Namespace
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import count, describe, positive_number
from adk_fluent.expr.base import Expr
from adk_fluent.expr.remote import RemoteAgent
from adk_fluent.ir.annotations import AuthConfig, RetryConfig
from adk_fluent.ir.endpoints import is_url
from adk_fluent.ir.functions import Access, keys_of
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.ir.tools import sees_caller, tool_name
from adk_fluent.middleware.retrying import Retry, Retryable
from adk_fluent.state.delta import detached
from adk_fluent.tools import sources, wrappers
from adk_fluent.tools.spec import Tool, checked, each, makes_values, object_of, together

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.auth.auth_credential import AuthCredential
    from google.adk.auth.auth_schemes import AuthScheme
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.tool_context import ToolContext
    from google.genai.types import VertexAISearchDataStoreSpec

    from adk_fluent.artifacts.tools import ArtifactTool

    ToolLike = Callable[..., Any] | BaseTool | BaseToolset | BaseAgent | Tool | ArtifactTool
    """What an agent takes as a tool."""
    CacheKey = Callable[[dict[str, Any]], Hashable] | Callable[[dict[str, Any], ToolContext], Hashable]
    """What makes two calls of a tool the same."""
    Auth = AuthConfig | tuple[AuthScheme, AuthCredential]
    """What a service asks for: a token, or ADK's scheme and credential."""


class T(metaclass=Namespace):
    """Tools. `a | b` gives an agent both; what wraps several wraps each of them.

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

    # --- where tools come from --------------------------------------------------------------------

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
        """A function: its name, docstring and parameters are what the model is told.

        An object that can be called is a function too, and a class whose objects are values, such as a model
        or a dataclass: the model fills it in, and the object is the result.

        Within a run, functions that are not async are called one after another, in the order of the calls.

        Args:
            confirm: whether a person must approve each call, or a function of its arguments that says so.
            reads: the state keys that it reads, for checks; as `@declares` says it.
            writes: the state keys that it writes.
            in_thread: whether a function that is not async is called in a thread, so that it may block;
                `False` calls it in the event loop, where nothing else happens until it returns.
            parallel: whether its calls may run at the same time as others of the run, each in a thread of its
                own. The function must then be thread-safe, and must not read a state key, change it and
                write it: another call may change the key meanwhile. Async functions always run so.

        Raises:
            ArgumentError: it is none of these, or `in_thread` and `parallel` do not go together.

        >>> from adk_fluent import Agent, T
        >>> def note(text: str, tool_context) -> None:
        ...     tool_context.state["note"] = text
        >>> Agent("a").tools(T.fn(note, writes=["note"])).node.key_writes
        ('note',)
        """
        is_value = not isinstance(function, type) or makes_values(function)
        if not callable(function) or isinstance(function, Expr | Tool) or not is_value:
            other = cast(object, function)
            raise ArgumentError(
                f"T.fn() takes a function, not {describe(other)}.{object_of(other) or _elsewhere(other)}"
            )
        reading, writing = keys_of(reads, "T.fn()", "reads"), keys_of(writes, "T.fn()", "writes")
        given = Access(reading, writing) if reading or writing else None
        for name, value in {"in_thread": in_thread, "parallel": parallel}.items():
            if not isinstance(cast(object, value), bool):
                raise ArgumentError(f"T.fn({name}=): it is True or False, not {value!r:.40}.")
        if parallel and not in_thread:
            told = "the event loop makes one call at a time. Leave out one of the two."
            raise ArgumentError(f"T.fn(parallel=True, in_thread=False): {told}")
        return sources.FunctionTool(function, confirm, given, in_thread, parallel)

    @staticmethod
    def agent(expression: Expr[Any]) -> Tool:
        """An agent, or a whole pipeline, that the model calls like a function, with a `request`.

        It sees the request and the state, not the conversation; the answer is what the call gives. What it
        writes to state is there afterwards, its events and tokens are part of the run, under its agents' own
        names, and only its caller hears it.

        Args:
            expression: what is called; it has a name, and `.describe(...)` tells the model what it is for. It
                cannot stop for a person.

        Raises:
            ArgumentError: it is no expression, or has no name.
        """
        if not isinstance(expression, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"T.agent() takes an expression, not {describe(expression)}.")
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
        """An agent that another process serves over A2A, which the model calls with a `request`.

        It is `T.agent(RemoteAgent(...))` with these options; the answer is what the call gives. Running it
        needs the extra `a2a`.

        Args:
            url: URL of its agent card, or of the service.
            name: what the model calls it; by default made of the URL.
            description: what the model is told that it is for.

        Raises:
            ArgumentError: it is no URL.

        >>> from adk_fluent import T
        >>> T.a2a("https://museum.example/guide")
        T.a2a('https://museum.example/guide')
        """
        return sources.RemoteTool(
            RemoteAgent(
                name or (_name_of(url) if is_url(url) else "remote"),
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
        """A toolset of ADK's, or one of yours; it is closed after the last run that uses it.

        Raises:
            ArgumentError: it is no toolset.
        """
        if isinstance(toolset, type) or not hasattr(toolset, "get_tools"):
            raise ArgumentError(f"T.toolset() takes a toolset, not {describe(toolset)}.")
        return sources.Toolset(toolset)

    @staticmethod
    def google_search() -> Tool:
        """Google search, which the provider of a Gemini model runs (ADK's `google_search`)."""
        return sources.GoogleSearch()

    @staticmethod
    def url_context() -> Tool:
        """Reading of web pages, which the provider of a Gemini model runs (ADK's `url_context`)."""
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
        """Search in a Vertex AI data store or engine (ADK's `VertexAiSearchTool`).

        Raises:
            ArgumentError: neither a data store nor an engine is named, or both are.
        """
        if (data_store_id is None) == (search_engine_id is None):
            raise ArgumentError("T.vertex_ai_search() takes either data_store_id= or search_engine_id=.")
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
        """The tools of an MCP server; needs the extra `mcp`.

        The connection is opened when a run first needs it, and closed after the last run that uses it. A
        server that does not answer is a `ToolError` that names agent and server.

        Args:
            server: the URL of a server that speaks Streamable HTTP (or server-sent events, when it ends with
                `/sse`); or ADK's parameters of a connection, such as `StdioConnectionParams`.
            tool_filter: the names of the tools that the agent gets, or ADK's predicate `(tool, context)`.
            prefix: what the names of the tools begin with, an underscore between; so that two servers may
                have tools of one name.

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
                f"connection such as StdioConnectionParams(...), not {describe(server)}."
            )
        return sources.Mcp(server, _filter(tool_filter, "T.mcp()"), _prefix(prefix, "T.mcp()"))

    @staticmethod
    def openapi(
        spec: Mapping[str, Any] | str | Path,
        *,
        tool_filter: Iterable[str] | Callable[..., bool] | None = None,
        auth: Auth | None = None,
        allow_private_network_access: bool = False,
    ) -> Tool:
        """A tool for each operation of a service that an OpenAPI specification describes.

        Args:
            spec: the specification: a dict, text in JSON or YAML, or the `Path` of a file.
            tool_filter: the operations that the agent gets, by the names that ADK gives to them: the
                `operationId` in snake case; or ADK's predicate `(tool, context)`.
            auth: `AuthConfig(type="bearer", token=...)`, or `type="api_key"`, which is sent in the header
                `X-API-Key`; or ADK's pair of scheme and credential. It is never shown, nor stored.
            allow_private_network_access: let calls reach this machine and private networks, which newer
                versions of ADK refuse otherwise.

        Raises:
            ArgumentError: `spec` or `auth` is of another kind, or `spec` has no paths. What else is wrong
                with a specification, ADK says when the agent is built; a file is read then, too.
        """
        pair = isinstance(auth, tuple) and len(auth) == 2
        if not (auth is None or isinstance(auth, AuthConfig) or pair):
            raise ArgumentError(
                "T.openapi(auth=) takes an AuthConfig, or ADK's (scheme, credential), not "
                f"{type(auth).__name__}."
            )
        return sources.OpenApi(
            _specification(spec),
            _filter(tool_filter, "T.openapi()"),
            None if auth is None else sources.Credential(auth),
            allow_private_network_access,
        )

    @staticmethod
    def skill(path: str | Path) -> Tool:
        """A skill: a folder with a `SKILL.md`, whose instructions the model loads when it needs them.

        Needs a google-adk that loads skills from folders, as 1.39 and 2.x do.
        """
        if not isinstance(path, str | Path) or not str(path).strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"T.skill() takes the path of a folder, not {describe(path)}.")
        return sources.Skill(str(path))

    @staticmethod
    def mock(tool: str | ToolLike, *, returns: Any = None, side_effect: Any = None) -> Tool:
        """A stand-in for a tool: in tests, and for what is not there yet.

        Args:
            tool: the name that the model knows it by; or the tool whose place it takes, with its schema.
            returns: what each call gives.
            side_effect: instead: a function of the call's arguments (whose parameters the model is told,
                where only a name is given); an error to raise; or a list of results and errors, one per call,
                of which the last repeats.

        Raises:
            ArgumentError: the name is none, both results are given, or the list is empty.

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
            _one(tool, "T.mock()")
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
                f"T.mock(side_effect=) takes a function, an error or a list, not {describe(side_effect)}."
            )
        return sources.Mock(tool, detached(returns), side_effect)

    # --- what is done around the calls ------------------------------------------------------------

    @staticmethod
    def confirm(tool: ToolLike, when: Callable[..., bool] | None = None) -> Tool:
        """Stop before each call until a person approves it; a refused call tells the model so.

        The run ends with `RunResult.pending`, and `resume` goes on with it, in another process, too.

        Args:
            when: a function of the arguments of the call, and of what `.inject` gives, by name, that says
                whether a person must be asked.
        """
        if when is not None and not callable(when):
            raise ArgumentError(f"T.confirm(when=) takes a function of the arguments, not {describe(when)}.")
        return _each(tool, lambda one: wrappers.ConfirmedTool(one, when), "T.confirm()")

    @staticmethod
    def timeout(tool: ToolLike, seconds: float) -> Tool:
        """Give up a call that takes longer: the run ends with a `ToolError`, unless something catches it.

        A function that is not async runs in a thread of its own meanwhile. It cannot be stopped there: what
        it does after its time, it does for nobody.
        """
        limit = positive_number(seconds, "T.timeout()")
        return _each(tool, lambda one: wrappers.TimedTool(one, limit), "T.timeout()")

    @staticmethod
    def cache(
        tool: ToolLike,
        *,
        ttl: float | None = None,
        key: CacheKey | None = None,
    ) -> Tool:
        """Give again what a call gave for the same arguments, also in later runs of the same expression.

        The tool is not called then, so whatever else it would do, such as writing state, does not happen.
        Errors are not kept. At most 1,000 results are, the latest used. An expression that is made anew has
        a cache of its own.

        A tool that sees who calls it needs a `key`: one that takes ADK's context, an expression (`T.agent`,
        `T.a2a`), which sees the state, and one that is given a resource of a session or a run.

        Args:
            ttl: seconds that a result is kept.
            key: what makes two calls the same: a function of the arguments, or of the arguments and ADK's
                `ToolContext`; by default all arguments.

        Raises:
            ArgumentError: `ttl` or `key` is of another kind, or the tool needs a `key` and has none.

        >>> from adk_fluent import T
        >>> def balance(account: str, tool_context) -> float:
        ...     return tool_context.state[f"user:{account}"]
        >>> T.cache(balance, key=lambda args, context: (context.user_id, args["account"]))
        T.cache(balance, key=<lambda>)
        """
        kept = None if ttl is None else positive_number(ttl, "T.cache(ttl=)")
        if key is not None and not callable(key):
            raise ArgumentError(f"T.cache(key=) takes a function of the arguments, not {describe(key)}.")
        if inspect.iscoroutinefunction(key):
            raise ArgumentError(
                "T.cache(key=) takes a plain function, not an async one: it is never awaited."
            )

        def cached(one: object) -> Tool:
            if key is None and sees_caller(one):
                raise ArgumentError(wrappers.needs_key(tool_name(one)))
            return wrappers.CachedTool(one, kept, key)

        return _each(tool, cached, "T.cache()")

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

        A tool that declares `@declares(idempotent=False)`, or that an MCP server calls not idempotent, is
        not called again. The last error counts; what a failed attempt wrote to state stays.

        Args:
            attempts: how often to call it, the first time included.
            backoff_base: seconds of the first wait; they double up to a minute, and a longer time that the
                error names (`retry-after`) is waited.
            on: which errors are worth another call: a class, a tuple of them, or a function of the error. By
                default what may pass: timeouts, broken connections, HTTP 408, 409, 425, 429 and 5xx.
            jitter: whether to vary the waits.

        Raises:
            ArgumentError: a number is out of range, or `on` is none of these.
        """
        times = count(attempts, "T.retry()")
        Retry(times, backoff_base, on, tools=True, jitter=jitter)  # which checks the rest
        return _each(
            tool, lambda one: wrappers.RetriedTool(one, times, backoff_base, on, jitter), "T.retry()"
        )

    @staticmethod
    def transform(
        tool: ToolLike,
        *,
        pre: Callable[[dict[str, Any]], Any] | None = None,
        post: Callable[[Any], Any] | None = None,
    ) -> Tool:
        """Change what goes into a tool and what comes out; the model is told of the tool as it is.

        Args:
            pre: the arguments as a dict → the arguments that the tool gets; may be async.
            post: its result → the result that the model gets; may be async.

        Raises:
            ArgumentError: neither is given, or one is no function.
        """
        if pre is None and post is None:
            raise ArgumentError("T.transform() needs pre= or post=.")
        for name, function in (("pre", pre), ("post", post)):
            if function is not None and not callable(function):
                raise ArgumentError(f"T.transform({name}=) takes a function, not {describe(function)}.")
        return _each(tool, lambda one: wrappers.TransformedTool(one, pre, post), "T.transform()")


def _each(tool: object, wrap: Callable[[object], Tool], where: str) -> Tool:
    """A tool wrapped, or each of several."""
    parts = tuple(wrap(_here(one, where)) for one in each(_given(tool, where)))
    return parts[0] if len(parts) == 1 else together(*parts)


def _one(tool: object, where: str) -> None:
    if len(each(_given(tool, where))) > 1:
        raise ArgumentError(f"{where} takes one tool, not {tool!r:.60}.")


def _given(tool: object, where: str) -> object:
    if isinstance(tool, str):
        raise ArgumentError(f"{where} takes a tool, not the name {tool!r}.")
    return checked(tool)


def _here(tool: object, where: str) -> object:
    """Refuse what runs where nothing of ours can be around it."""
    if isinstance(tool, sources.GoogleSearch | sources.UrlContext | sources.VertexAiSearch):
        raise ArgumentError(
            f"{where}: {tool!r} runs at the provider of the model, where nothing can be around it."
        )
    return tool


def _elsewhere(function: object) -> str:
    if isinstance(function, Expr):
        return " Write T.agent(...)."
    if hasattr(function, "get_tools"):
        return " Write T.toolset(...)."
    return " A tool of ADK's stands as it is: .tools(tool)." if hasattr(function, "run_async") else ""


def _specification(spec: object) -> Any:
    """What `T.openapi` takes; what only reading all of it would tell, ADK says when it is built.

    Raises:
        ArgumentError: it is none.
    """
    if isinstance(spec, Path):
        return spec
    if isinstance(spec, Mapping):
        held = detached(dict(cast("Mapping[str, Any]", spec)))
        if isinstance(held.get("paths"), Mapping):
            return held
    elif not isinstance(spec, str):
        raise ArgumentError(
            f"T.openapi() takes a specification as a dict, as text or as a Path, not {describe(spec)}."
        )
    elif spec.startswith(("http://", "https://")):
        raise ArgumentError(
            "T.openapi() fetches nothing: download the specification, and give its text or Path."
        )
    elif "paths" in spec:
        return spec
    file = " A file is given as a Path." if isinstance(spec, str) else ""
    raise ArgumentError(
        f"T.openapi() takes a specification, and {spec!r:.60} has no paths of a service.{file}"
    )


def _filter(names: object, where: str) -> sources.ToolFilter:
    if names is None or callable(names):
        return cast("sources.ToolFilter", names)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentError(f"{where[:-1]}tool_filter=) takes the names of tools, not {describe(names)}.")
    found = tuple(cast("Iterable[object]", names))
    if not found or not all(isinstance(name, str) for name in found):
        raise ArgumentError(f"{where[:-1]}tool_filter=) takes the names of tools, not {found!r:.60}.")
    return cast("tuple[str, ...]", found)


def _prefix(prefix: object, where: str) -> str | None:
    if prefix is None or (isinstance(prefix, str) and prefix.isidentifier()):
        return prefix
    raise ArgumentError(f"{where[:-1]}prefix=) takes an identifier, not {describe(prefix)}.")


def _name_of(url: str) -> str:
    """A name for what is at a URL: the last part of its path, or else its host.

    >>> _name_of("https://museum.example/guide-2/.well-known/agent-card.json"), _name_of("http://[::1]:80")
    ('guide_2', 'remote_1')
    """
    parts = urlsplit(url)
    path = parts.path.partition("/.well-known/")[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"\W+", "_", path or (parts.hostname or ""), flags=re.ASCII).strip("_")
    return name if name.isidentifier() else f"remote_{name}".rstrip("_")
