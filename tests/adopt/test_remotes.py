"""ADK's agents for remote ones: as `RemoteAgent` where nothing is lost; else they stay, and say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, RemoteAgent
from adk_fluent.adopt import adopt, to_source
from adk_fluent.adopt.source import written
from adk_fluent.ir import NativeNode
from adk_fluent.testing import mock_backend
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
    assert adopt(remote(timeout=9)).node == RemoteAgent("far", endpoint=URL, timeout=9).node
    described = remote("http://127.0.0.1:1/", description="Pays.", timeout=9)
    same = RemoteAgent("far", endpoint="http://127.0.0.1:1/", description="Pays.", timeout=9)
    assert adopt(described).node == same.node
    unencrypted = RemoteAgent("far", endpoint="http://pay.example/", timeout=600, allow_http=True)
    assert adopt(remote("http://pay.example/")).node == unencrypted.node
    assert isinstance(adopt(remote()), RemoteAgent)


def test_it_is_written_as_one() -> None:
    """Also inside others."""
    source = to_source(Agent("a") >> adopt(remote(timeout=9)))
    assert f'far = RemoteAgent(\n    "far", endpoint="{URL}", timeout=9\n)\n' in source


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


async def test_it_runs_over_the_network() -> None:
    """What is adopted asks the same service."""
    from adk_fluent.serve import A2AServer

    backend = mock_backend({"clerk": "Paid."})
    async with A2AServer(Agent("clerk"), backend=backend) as server:
        native = remote(server.url + ".well-known/agent-card.json")
        result = await (Agent("a") >> native).run("Pay.", backend=mock_backend({"a": "ok"}, remotes="real"))
    assert result.text == "Paid."
