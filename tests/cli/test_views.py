"""What `run` writes of events: the answers alone, or everything as JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from adk_fluent.backends.events import AgentEvent, Pending, ToolCallInfo, ToolResponseInfo, Usage
from adk_fluent.cli.paper import paper
from adk_fluent.cli.run import AnswerView, JsonView

pytestmark = pytest.mark.newest  # the same on every release


class Flushed(io.StringIO):
    """Counts how often it is flushed: who reads along gets each line at once."""

    times = 0

    def flush(self) -> None:
        self.times += 1


EVENT = AgentEvent(
    author="clerk",
    content="Größe \u2713",
    state_delta={"seen": {1}},
    transfer_to="boss",
    tool_calls=[ToolCallInfo("weather", {"city": "Rome"}, "c1")],
    tool_responses=[ToolResponseInfo("weather", {"result": "sunny"}, "c1")],
    is_final=True,
    is_partial=True,
    timestamp=12.5,
    id="e1",
    invocation_id="i1",
    branch="fan.left",
    model="small",
    usage=Usage(calls=1, input_tokens=4, output_tokens=3),
    error="429: too many",
    visibility="internal",
    pending=(Pending("p1", "boss", "Send it?"),),
)
WRITTEN: dict[str, Any] = {
    "type": "event",
    "author": "clerk",
    "text": "Größe \u2713",
    "partial": True,
    "final": True,
    "visibility": "internal",
    "state": {"seen": "{1}"},
    "tool_calls": [{"name": "weather", "args": {"city": "Rome"}, "id": "c1"}],
    "tool_results": [{"name": "weather", "result": {"result": "sunny"}, "id": "c1"}],
    "transfer_to": "boss",
    "pending": [
        {
            "id": "p1",
            "agent": "boss",
            "kind": "approval",
            "message": "Send it?",
            "form": "True, False or a payload that approves",
            "payload": {},
        }
    ],
    "usage": {"input_tokens": 4, "output_tokens": 3},
    "model": "small",
    "error": "429: too many",
    "branch": "fan.left",
    "id": "e1",
    "invocation_id": "i1",
    "timestamp": 12.5,
}


def test_an_event_as_json_word_for_word() -> None:
    """Everything an event holds stands in its line, in letters as they are, and is there at once."""
    stream = Flushed()
    view = JsonView(lambda event: event, stream)
    view.show(EVENT)
    assert json.loads(stream.getvalue()) == WRITTEN
    assert list(json.loads(stream.getvalue())) == list(WRITTEN)
    assert "Größe ✓" in stream.getvalue()
    assert stream.times == 1
    view.result("s1", "Done.", {"k": 1})
    assert json.loads(stream.getvalue().splitlines()[1]) == {
        "type": "result",
        "session_id": "s1",
        "text": "Done.",
        "state": {"k": 1},
        "pending": [],
    }


def test_an_event_without_usage_as_json() -> None:
    """What is not there is null, and the keys are the same."""
    stream = io.StringIO()
    JsonView(lambda event: event, stream).show(AgentEvent(author="a"))
    found = json.loads(stream.getvalue())
    assert list(found) == list(WRITTEN)
    assert found["usage"] is None
    assert (found["partial"], found["final"], found["text"], found["pending"]) == (False, False, None, [])


def test_answers_without_words_are_empty_lines() -> None:
    """Of an answer that is an image alone, nothing is written."""
    stream = io.StringIO()
    AnswerView(paper(stream)).answer([AgentEvent(author="a"), AgentEvent(author="b", content="Two.")])
    assert stream.getvalue() == "\nTwo.\n"
