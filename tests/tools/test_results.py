"""Results of tools are values that a session can store; others are refused."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent
from adk_fluent.errors import ToolError
from adk_fluent.testing import call_tool, mock_backend


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    left: int


def connect() -> Any:
    """A tool that returns a live object."""
    return {"connection": sqlite3.connect(":memory:")}


def describe() -> dict[str, Any]:
    """A tool that returns what can be stored."""
    return {"day": date(2026, 1, 2), "point": Point(x=1), "pair": Pair(2), "tags": {"a"}}


async def test_a_live_object_is_refused_by_name() -> None:
    """One line that names the agent and the tool, and says what to return; the original is the cause."""
    backend = mock_backend({"a": [call_tool("connect"), "Done."]})
    with pytest.raises(ToolError) as error:
        await Agent("a").tool(connect).run("Go", backend=backend)
    assert str(error.value).startswith("Agent 'a': what its tool 'connect' returned cannot be stored: ")
    assert "Connection" in str(error.value)
    assert "\n" not in str(error.value)
    assert isinstance(error.value.__cause__, ValueError)


async def test_a_fallback_catches_it() -> None:
    """A fallback catches an unstorable result like any other error of a tool."""
    pipeline = Agent("a").tool(connect) // Agent("b")
    backend = mock_backend({"a": [call_tool("connect"), "Done."], "b": "Instead."})
    assert (await pipeline.run("Go", backend=backend)).text == "Instead."


async def test_values_that_pydantic_can_store_are_stored() -> None:
    """Dates, models, dataclasses and sets are no mistake."""
    backend = mock_backend({"a": [call_tool("describe"), "Done."]})
    assert (await Agent("a").tool(describe).run("Go", backend=backend)).text == "Done."
