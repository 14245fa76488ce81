"""ADK's agents for remote ones: as `RemoteAgent` where nothing is lost; else they stay, and say why."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin

from adk_fluent import Agent, RemoteAgent
from adk_fluent.adopt import adopt, to_source
from adk_fluent.adopt.source import written
from adk_fluent.ir import NativeNode
from adk_fluent.testing import mock_backend
from tests.adopt.projects import shell
from tests.backends.support import PlainLlm, reply
from tests.cli.commands import Cli

pytestmark = [
    pytest.mark.newest,  # they need a2a-sdk
    pytest.mark.filterwarnings("ignore::UserWarning"),  # ADK calls them experimental
]
URL = "https://pay.example/.well-known/agent-card.json"


def remote(url: Any = URL, **options: Any) -> Any:
    """An agent of ADK's own."""
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

    return RemoteA2aAgent(name="far", agent_card=url, **options)


def test_what_has_only_a_url_is_a_remote_agent() -> None:
    """Its fields are those of the node."""
    assert adopt(remote(timeout=9)).node == RemoteAgent("far", endpoint=URL, timeout=9, raises=False).node
    described = remote("http://127.0.0.1:1/", description="Pays.", timeout=9)
    same = RemoteAgent("far", endpoint="http://127.0.0.1:1/", description="Pays.", timeout=9, raises=False)
    assert adopt(described).node == same.node
    unencrypted = RemoteAgent(
        "far", endpoint="http://pay.example/", timeout=600, allow_http=True, raises=False
    )
    assert adopt(remote("http://pay.example/")).node == unencrypted.node
    assert isinstance(adopt(remote()), RemoteAgent)


def test_it_is_written_as_one() -> None:
    """Also inside others."""
    source = to_source(Agent("a") >> adopt(remote(timeout=9)))
    assert f'    "far",\n    endpoint="{URL}",\n    timeout=9,\n    raises=False,\n)\n' in source


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("PAYING", "far, a RemoteA2aAgent: it has more than a URL: httpx_client"),
        ("FILED", "far, a RemoteA2aAgent: its card is no URL."),
        ("NOTING", "far, a RemoteA2aAgent: it has more than a URL: before_agent_callback."),
        ("HISTORY", "far, a RemoteA2aAgent: it has more than a URL: full_history_when_stateless"),
        ("OWN", "own, an Own: only its class knows what it does."),
    ],
    ids=["client", "file", "callback", "option", "subclass"],
)
def test_what_would_be_lost_keeps_it_native(name: str, why: str) -> None:
    """And is told."""
    from tests.adopt import remotes

    native: Any = getattr(remotes, name)
    expression = adopt(native)
    assert isinstance(expression.node, NativeNode)
    (line,) = written(native).native
    assert line.startswith(why)
    assert not [issue for issue in expression.check().infos if issue.code == "unknown-access"]


async def test_it_is_scripted_and_runs_where_others_run() -> None:
    """In a pipeline, and as one that is handed over to."""
    from google.adk.agents import LlmAgent

    from adk_fluent.testing import call_tool

    script: dict[str, Any] = {"a": "asked", "far": "paid"}
    result = await (Agent("a") >> remote()).run("go", backend=mock_backend(script))
    assert [event.content for event in result if event.content] == ["asked", "paid"]
    boss = LlmAgent(name="boss", sub_agents=[remote()])
    script = {"boss": call_tool("transfer_to_agent", agent_name="far"), "far": "paid"}
    assert (await adopt(boss).run("go", backend=mock_backend(script))).text == "paid"


def test_a_project_with_one_is_converted_and_proves_it(cli: Cli, tmp_path: Path) -> None:
    """No other process is asked."""
    (tmp_path / "shop.py").write_text(
        "from google.adk.agents import LlmAgent\n"
        "from google.adk.agents.remote_a2a_agent import RemoteA2aAgent\n"
        f"far = RemoteA2aAgent(name='far', agent_card={URL!r}, description='Pays.')\n"
        "root_agent = LlmAgent(name='boss', sub_agents=[far])\n"
    )
    done = cli("convert", "shop.py", "--verify")
    assert "verified" in done.err, done.err
    assert f'endpoint="{URL}"' in done.out
    assert "adopt(" not in done.out


PLACES = {
    "a sub-agent": "root_agent = LlmAgent(name='boss', sub_agents=[far])",
    "a sub-agent with more than a URL": (
        "m = RemoteA2aAgent(name='far2', agent_card=URL, description='x', full_history_when_stateless=True)"
        "\nroot_agent = LlmAgent(name='boss', sub_agents=[m])"
    ),
    "a tool": "root_agent = LlmAgent(name='boss', tools=[AgentTool(far)])",
    "a tool in a tool": (
        "desk = LlmAgent(name='desk', tools=[AgentTool(far)])\n"
        "root_agent = LlmAgent(name='boss', tools=[AgentTool(desk)])"
    ),
    "a tool without plugins": (
        "root_agent = LlmAgent(name='boss', tools=[AgentTool(far, include_plugins=False)])"
    ),
    "a node of a graph": "root_agent = Workflow(name='graph', edges=[(START, boss), (boss, far)])",
    "a tool of a node of a graph": (
        "desk = LlmAgent(name='desk', tools=[AgentTool(far)])\n"
        "root_agent = Workflow(name='graph', edges=[(START, desk)])"
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_proof_contacts_no_server(
    place: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the agent of another process is; it answers by its script on both sides."""
    import httpx

    sent: list[object] = []

    async def send(self: object, request: httpx.Request, **options: object) -> httpx.Response:
        sent.append(request.url)
        raise httpx.ConnectError("No connection.")

    monkeypatch.setattr(httpx.AsyncClient, "send", send)
    (tmp_path / "shop.py").write_text(
        "from google.adk.agents import LlmAgent\n"
        "from google.adk.agents.remote_a2a_agent import RemoteA2aAgent\n"
        "from google.adk.tools.agent_tool import AgentTool\n"
        "from google.adk.workflow import START, Workflow\n"
        f"URL = {URL!r}\n"
        "far = RemoteA2aAgent(name='far', agent_card=URL, description='Pays.')\n"
        "boss = LlmAgent(name='boss')\n"
        f"{PLACES[place]}\n"
    )
    done = cli("convert", "shop.py", "--verify")
    assert "verified" in done.err, done.err
    assert sent == []


class Calls(BasePlugin):
    """Offers a tool that asks another process, and keeps what it gave."""

    def __init__(self) -> None:
        super().__init__("calls")
        self.heard: list[object] = []

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Offer the tool."""
        from google.adk.tools.agent_tool import AgentTool

        llm_request.append_tools([AgentTool(remote(description="Pays."))])

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        """Keep what it gave."""
        self.heard.append(result)


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's own, of its tool
async def test_a_script_answers_for_one_that_only_a_run_makes() -> None:
    """It is never called, though no copy of it could be made before."""
    from google.adk.agents import LlmAgent
    from google.adk.apps.app import App

    from adk_fluent.testing import call_tool

    calls = Calls()
    app = App(name="shop", root_agent=LlmAgent(name="boss"), plugins=[calls])
    script: dict[str, Any] = {"boss": [call_tool("far", request="Pay."), "done"], "far": "paid"}
    assert (await adopt(app).run("go", backend=mock_backend(script))).text == "done"
    assert calls.heard == ["paid"]


async def test_one_that_is_down_is_an_event_as_before() -> None:
    """The converted project goes on, as the native one does."""
    from google.adk.agents import LlmAgent
    from google.adk.runners import InMemoryRunner

    async def says(_: object) -> AsyncGenerator[LlmResponse]:
        yield reply("done")

    closed = "http://127.0.0.1:9/.well-known/agent-card.json"
    heard: list[list[tuple[str, bool]]] = []
    for far in (remote(closed), adopt(remote(closed)).build()):
        root = shell("SequentialAgent", "all", far, LlmAgent(name="last", model=PlainLlm.of(says)))
        events = await InMemoryRunner(root).run_debug("go", quiet=True)
        heard.append([(event.author, bool(event.error_message)) for event in events if event.author != "all"])
    assert heard[0] == heard[1] == [("far", True), ("last", False)]


async def test_it_runs_over_the_network() -> None:
    """What is adopted asks the same service."""
    from adk_fluent.serve import A2AServer

    backend = mock_backend({"clerk": "Paid."})
    async with A2AServer(Agent("clerk"), backend=backend) as server:
        native = remote(server.url + ".well-known/agent-card.json")
        result = await (Agent("a") >> native).run("Pay.", backend=mock_backend({"a": "ok"}, remotes="real"))
    assert result.text == "Paid."
