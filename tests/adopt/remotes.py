"""ADK's agents for remote ones that are more than a URL; they need a2a-sdk."""

from __future__ import annotations

import warnings
from typing import Any, cast

import httpx
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

from tests.adopt.projects import note_start

URL = "https://pay.example/.well-known/agent-card.json"


class Own(RemoteA2aAgent):
    """One of the user's."""


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ADK calls them experimental
    PAYING = RemoteA2aAgent(name="far", agent_card=URL, httpx_client=httpx.AsyncClient())
    FILED = RemoteA2aAgent(name="far", agent_card="/nowhere/card.json")
    NOTING = RemoteA2aAgent(name="far", agent_card=URL, before_agent_callback=note_start)
    HISTORY = RemoteA2aAgent(name="far", agent_card=URL, full_history_when_stateless=True)
    OWN: Any = cast(Any, Own)(name="own", agent_card=URL)
