"""Tools of real servers: MCP over stdio and HTTP, OpenAPI over HTTP, skills in a folder."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
from google.adk.tools.openapi_tool import OpenAPIToolset

from adk_fluent import Agent, T, race
from adk_fluent.adopt import adopt
from adk_fluent.errors import ArgumentError, CompileError, ToolError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.served_tools import listening
from tests.clock import advance, with_clock
from tests.limits import LIMIT, begins, comes_true, within_limit
from tests.tools.every import PETS, skill_folder

pytestmark = [
    # ADK's OpenAPI tool gives httpx its cookies with each request, and ADK 1.x uses old names of its
    # own: of the MCP tool, of a client of `mcp`, and of a method of its credentials.
    pytest.mark.filterwarnings("ignore:Setting per-request cookies:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:MCPTool class is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Use `streamable_http_client` instead:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This method is deprecated. Use credential_key:DeprecationWarning"),
]

PROGRAM = str(Path(__file__).parent.parent / "backends" / "served_tools.py")


@pytest.fixture(autouse=True)
def not_in_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADK 2 asks the machine whether it is one of Google's before it connects; here it need not."""
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def stdio(log: Path) -> Any:
    """The parameters of a server that is started for the connection."""
    parameters: Any = import_module("mcp").StdioServerParameters(
        command=sys.executable, args=[PROGRAM, str(log)]
    )
    return StdioConnectionParams(server_params=parameters, timeout=LIMIT)


def said(run: Any) -> list[str]:
    """The results of a run's tools, as text."""
    return [json.dumps(response.result) for event in run for response in event.tool_responses]


async def test_a_server_that_is_started(tmp_path: Path) -> None:
    """Over stdio: filtered and prefixed tools, a wrapper around each, and the process is gone afterwards."""
    log = tmp_path / "log"
    tool = T.cache(T.mcp(stdio(log), tool_filter=["price", "order"], prefix="shop"), key=str)
    backend = mock_backend(
        {"a": [call_tool("shop_order", article="tea"), call_tool("shop_order", article="tea"), "done"]}
    )
    run = await Agent("a").tools(tool).run("hi", backend=backend)
    assert sorted(backend.calls["a"][0].tools_dict) == ["shop_order", "shop_price"]
    assert [("ordered 1 tea" in text) for text in said(run)] == [True, True]
    lines = log.read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == ["start", "ordered 1 tea"]


async def test_a_server_is_started_where_errors_have_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server starts even if a notebook or test had replaced stderr when ADK was imported."""
    module: Any = import_module("google.adk.tools.mcp_tool.mcp_toolset")
    real, without_file = module.McpToolset, io.StringIO()

    def made(**given: Any) -> Any:
        return real(**{"errlog": without_file, **given})

    monkeypatch.setattr(module, "McpToolset", made)
    backend = mock_backend({"a": [call_tool("price", article="tea"), "done"]})
    run = await Agent("a").tools(T.mcp(stdio(tmp_path / "log"))).run("hi", backend=backend)
    assert "tea costs 3 EUR" in said(run)[0]


async def test_a_server_that_listens(tmp_path: Path) -> None:
    """Over HTTP: a tool that fails tells the model so; `async with` keeps one connection over runs."""
    with listening(tmp_path / "log") as url:
        agent = Agent("a").tools(T.mcp(url))
        script = {"a": [call_tool("price", article="tea"), call_tool("fail"), "done"] * 2}
        backend = mock_backend(script)
        async with agent:
            for _ in range(2):
                price, failure = said(await agent.run("hi", backend=backend))
                assert "tea costs 3 EUR" in price
                assert '"isError": true' in failure


async def test_a_server_that_is_gone(tmp_path: Path) -> None:
    """One line names agent and server, a fallback takes over, and a server that comes back is used again."""
    with listening(tmp_path / "log") as url:
        agent = Agent("a").tools(T.mcp(url))
        backend = mock_backend({"a": [call_tool("price", article="tea"), "done"], "b": "helped"})
        await agent.run("hi", backend=backend)
    with pytest.raises(
        ToolError, match=rf"^Agent 'a': the MCP server {url} gave no tools: Conn.* Is it running\?$"
    ):
        await agent.run("hi", backend=mock_backend({"a": "made up"}))
    assert (await (agent // Agent("b")).run("hi", backend=backend)).text == "helped"


async def test_asked_before_a_call(tmp_path: Path) -> None:
    """`T.confirm` over a server: nothing is called until a person approves."""
    log = tmp_path / "log"
    with listening(log) as url:
        agent = Agent("a").tools(T.confirm(T.mcp(url)))
        backend = mock_backend({"a": [call_tool("order", article="tea"), "done"]})
        first = await agent.run("hi", backend=backend)
        assert "ordered" not in log.read_text()
        approvals = {first.pending[0].id: True}
        rest = await agent.resume(session_id=first.session_id, approvals=approvals, backend=backend)
    assert "ordered 1 tea" in said(rest)[0]


async def test_a_server_that_is_not_there() -> None:
    """One line names agent and server, in place of an answer that is made up."""
    agent = Agent("a").tools(T.mcp("http://127.0.0.1:9/mcp"))
    message = r"^Agent 'a': the MCP server http://127.0.0.1:9/mcp gave no tools: Conn.* Is it running\?$"
    with pytest.raises(ToolError, match=message):
        await agent.run("hi", backend=mock_backend({"a": "made up"}))


# --- OpenAPI --------------------------------------------------------------------------------------


class Pets(BaseHTTPRequestHandler):
    """A service; it tells who asks."""

    def do_GET(self) -> None:
        body = json.dumps(
            {
                "path": self.path,
                "authorization": self.headers.get("Authorization"),
                "key": self.headers.get("X-API-Key"),
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


@pytest.fixture
def service() -> Iterator[dict[str, Any]]:
    """A running service, as its specification."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pets) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield {**PETS, "servers": [{"url": f"http://127.0.0.1:{server.server_port}"}]}
        server.shutdown()
        thread.join(LIMIT)


async def asked(tool: Any) -> Any:
    """The response of the service to a call."""
    backend = mock_backend({"a": [call_tool("get_pet", pet="Rex"), "done"]})
    run = await Agent("a").tools(tool).run("hi", backend=backend)
    ((answer,),) = [event.tool_responses for event in run if event.tool_responses]
    return answer.result


AUTHS: dict[str, Any] = {
    "nothing": (None, None, None),
    "a bearer token": (AuthConfig(type="bearer", token="t0"), "Bearer t0", None),
    "a key": (AuthConfig(type="api_key", token="k0"), None, "k0"),
}


@pytest.mark.parametrize(("auth", "authorization", "key"), AUTHS.values(), ids=AUTHS)
async def test_a_service(service: Any, auth: Any, authorization: Any, key: Any) -> None:
    """An operation is called with its arguments and what the service asks for."""
    result = await asked(T.openapi(service, auth=auth, allow_private_network_access=True))
    assert result == {"path": "/pets/Rex", "authorization": authorization, "key": key}


async def test_specifications_in_every_form(service: Any, tmp_path: Path) -> None:
    """A specification may be a dict, text or a file; its operations can be filtered and wrapped."""
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(service))
    for spec in (service, json.dumps(service), file):
        tool = T.openapi(spec, tool_filter=["get_pet"], allow_private_network_access=True)
        assert (await asked(T.retry(tool)))["path"] == "/pets/Rex"


def test_invalid_specifications(tmp_path: Path) -> None:
    """A specification without paths is an error at once; an unreadable one is named when it is built."""
    untyped: Any = T
    for none in ("{", "just text", "pets.json", {"openapi": "3.0.0", "paths": 7}, {}):
        hint = r" A file is given as a Path\." if isinstance(none, str) else ""
        with pytest.raises(ArgumentError, match=rf"^T\.openapi\(\) .* has no paths of a service\.{hint}$"):
            untyped.openapi(none)
    for spec in (tmp_path / "missing.json", "{paths: ", "no paths", {"openapi": "3.0.0", "paths": {"/": 7}}):
        with pytest.raises(CompileError, match=r"^'a': .*openapi\("):
            Agent("a").tools(T.openapi(spec)).build()


@pytest.mark.newest
async def test_a_private_network_is_refused(service: Any) -> None:
    """Unless it is allowed, the newest ADK lets no call reach this machine, and tells the model."""
    result = await asked(T.openapi(service))
    assert "path" not in result


class Shop:
    """A service in this loop, whose pet `hang` never comes, and whose pet `ill` is an error.

    Attributes:
        hangs: set once there is a request that it does not answer.
        connections: those that are open.
    """

    def __init__(self) -> None:
        self.hangs = asyncio.Event()
        self.connections = set[asyncio.StreamWriter]()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        """Inside, it listens at this address; at the end no connection may be left."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        before = asyncio.all_tasks()
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await comes_true(lambda: not self.connections, "all connections are closed")
            await comes_true(lambda: asyncio.all_tasks() <= before, "all tasks have ended")
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while True:
                pet = (await reader.readuntil(b"\r\n\r\n")).split()[1].rpartition(b"/")[2]
                if pet == b"hang":
                    self.hangs.set()
                    advance(TIME)
                else:
                    status = b"500 No" if pet == b"ill" else b"200 OK"
                    writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(pet), pet))
        except (EOFError, ConnectionError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()


TIME = 2.0
"""Seconds of the clock that a pet takes that never comes: less than ADK waits for it."""


def pets(url: str) -> OpenAPIToolset:
    """ADK's own toolset for a service."""
    options: dict[str, Any] = {"spec_dict": {**PETS, "servers": [{"url": url}]}}
    if "allow_private_network_access" in signature(OpenAPIToolset).parameters:  # others never refuse one
        options["allow_private_network_access"] = True
    return OpenAPIToolset(**options)


def native(toolset: OpenAPIToolset) -> LlmAgent:
    """An agent of ADK's with the tools of a service."""
    return LlmAgent(name="a", model="gemini-2.5-flash", instruction="Look it up.", tools=[toolset])


A, B, OUTER = (
    Agent("a").instruct("Look it up."),
    Agent("b").instruct("Help."),
    Agent("outer").instruct("Ask."),
)
PLACES: dict[str, Callable[[OpenAPIToolset], Expr[Any]]] = {
    "a step": lambda toolset: A.tool(toolset),
    "a sequence": lambda toolset: A.tool(toolset) >> Agent("last").instruct("Go on."),
    "in parallel": lambda toolset: A.tool(toolset) | B.tool(toolset),
    "a race": lambda toolset: race(A.tool(toolset), B.tool(toolset)),
    "in time": lambda toolset: A.tool(toolset).timeout(LIMIT),
    "a tool": lambda toolset: OUTER.tool(T.agent(A.tool(toolset))),
    "a tool of ADK's": lambda toolset: OUTER.tool(AgentTool(native(toolset))),
    "adopted": lambda toolset: adopt(native(toolset)),
    "around the calls": lambda toolset: A.tool(T.timeout(T.retry(toolset, backoff_base=0), LIMIT)),
}


def looks_up(pet: str) -> dict[str, Any]:
    """Agents that look up a pet."""
    asks = [call_tool("get_pet", pet=pet), "Done."]
    return {"a": asks, "b": asks, "outer": [call_tool("a", request="Please."), "Done."], "last": "Done."}


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # of ADK's own AgentTool
@pytest.mark.parametrize("place", PLACES)
async def test_adks_own_tools_of_a_service(place: str) -> None:
    """Agents with such tools run everywhere; ADK tells the model of an error of the service."""
    async with Shop().open() as url:
        expression = PLACES[place](pets(url))
        unknown = {"unknown-access"} if place == "a tool of ADK's" else set[str]()  # of what is inside it
        assert {issue.code for issue in expression.check().issues} == unknown
        for pet, gives in (("Rex", '{"text": "Rex"}'), ("ill", "Status Code: 500, ill")):
            backend = mock_backend(looks_up(pet))
            run = await expression.run("hi", backend=backend)
            asked = backend.calls.get("a", []) + backend.calls.get("b", [])
            told = [
                json.dumps(part.function_response.response)
                for request in asked
                for part in request.contents[-1].parts or []
                if part.function_response
            ]
            assert run.text == "Done."
            assert told
            assert all(gives in each for each in told)


OVER: dict[str, tuple[Callable[[Any], Expr[Any]], str]] = {
    "beaten": (lambda tool: race(A.tool(tool), B), "Won."),
    "out of time": (lambda tool: A.tool(tool).timeout(TIME), "AgentTimeoutError"),
    "replaced": (lambda tool: A.tool(tool).timeout(TIME) // Agent("c"), "Instead."),
    "its call": (
        lambda tool: A.tool(T.timeout(tool, TIME)),
        "Agent 'a': its tool 'get_pet' raised TimeoutError",
    ),
    "inside a tool": (lambda tool: OUTER.tool(T.agent(A.tool(tool))).timeout(TIME), "AgentTimeoutError"),
    "cancelled": (lambda tool: A.tool(tool), "CancelledError"),
}


@pytest.mark.parametrize("way", OVER)
@with_clock
async def test_a_service_that_does_not_answer(way: str) -> None:
    """The request ends with the run, or with the limit of its call; nothing is left running."""
    (make, outcome), shop = OVER[way], Shop()

    async def waits(request: LlmRequest) -> AsyncGenerator[str, None]:
        await shop.hangs.wait()
        yield "Won."

    async with shop.open() as url:
        backend = mock_backend({**looks_up("hang"), "b": waits, "c": "Instead."})
        task = asyncio.ensure_future(make(pets(url)).run("hi", backend=backend))
        await begins(shop.hangs, task)
        if way == "cancelled":
            task.cancel()
        (ended,) = await within_limit(asyncio.gather(task, return_exceptions=True))
        assert outcome in (repr(ended) if isinstance(ended, BaseException) else ended.text)


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # of ADK's own AgentTool
@pytest.mark.parametrize("place", PLACES)
async def test_a_service_that_is_not_there(place: str) -> None:
    """The error names agent and tool, and a fallback takes over."""
    async with Shop().open() as url:
        pass
    expression = PLACES[place](pets(url))
    with pytest.raises(ToolError, match=r"^Agent '[ab]': its tool 'get_pet' raised ConnectError: [^\n]*$"):
        await expression.run("hi", backend=mock_backend(looks_up("Rex")))
    backend = mock_backend({**looks_up("Rex"), "spare": "helped"})
    assert await (expression // Agent("spare")).ask_async("hi", backend=backend) == "helped"


@pytest.mark.newest
async def test_a_skill(tmp_path: Path) -> None:
    """A model loads the instructions of a skill when it needs them."""
    agent = Agent("a").tools(T.skill(skill_folder(tmp_path)))
    backend = mock_backend({"a": [call_tool("load_skill", skill_name="refunds"), "done"]})
    run = await agent.run("hi", backend=backend)
    assert "Ask for the order number." in said(run)[0]
    with pytest.raises(CompileError, match=r"'a': T.skill\(.*cannot be loaded"):
        Agent("a").tools(T.skill(tmp_path / "none")).build()


def test_two_loops_one_server(tmp_path: Path) -> None:
    """Each `ask` has a separate event loop, and connects again."""
    with listening(tmp_path / "log") as url:
        agent = Agent("a").tools(T.mcp(url))
        backend = mock_backend({"a": [call_tool("price", article="tea"), "done"] * 2})
        for _ in range(2):
            assert agent.ask("hi", backend=backend) == "done"
