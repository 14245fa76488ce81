"""Files of recordings: whole or not at all, and harmless to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from adk_fluent import Agent, S, gate
from adk_fluent.debug import Recorder, Recording
from adk_fluent.errors import RecordingError
from adk_fluent.testing import call_tool, mock_backend


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def some() -> Recording:
    """A recording with something of everything in it."""
    tape = Recorder()
    pipeline = S.set(n=1) >> Agent("a").tool(add).writes("sum") >> gate(lambda s: True, message="Go on?")
    image = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    said = types.Content(role="model", parts=[image, types.Part(text="3")])
    backend = mock_backend({"a": [call_tool("add", a=1, b=2), said]})
    await pipeline.run(["Add.", image], backend=backend, middleware=[tape])
    return tape.get_recording()


async def test_a_file_gives_back_the_same(tmp_path: Path) -> None:
    """What is saved and loaded is equal, its folder is made, and nothing else is left there."""
    recording = await some()
    path = recording.save(tmp_path / "deep" / "r.json")
    loaded = Recording.load(path)
    assert loaded == recording
    assert loaded.to_json() == recording.to_json()
    assert loaded.events[-1].pending[0].message == "Go on?"
    parts = [part for event in loaded.events for part in event.parts]
    assert [part.inline_data.data for part in parts if part.inline_data] == [b"\x89PNG"]
    assert [each.name for each in path.parent.iterdir()] == ["r.json"]


async def test_newer_fields_are_left_out() -> None:
    """What a later minor version adds anywhere does not disturb."""
    recording = await some()
    data = json.loads(recording.to_json())
    data["version"] = "1.9"
    data["mood"] = "calm"
    for part in ("runs", "steps", "llm_interactions", "tool_interactions"):
        data[part][0]["mood"] = {"calm": 1}
    data["steps"][0]["event"]["mood"] = 1
    data["llm_interactions"][0]["chunks"][0]["mood"] = 1
    assert Recording.from_json(json.dumps(data)) == recording


Change = Callable[[dict[str, Any]], object]

WRONG: Mapping[str, Change] = {
    r"of format 2\.0, .* reads 1\.x\. Upgrade": lambda data: data.update(version="2.0"),
    "is no recording of adk-fluent": lambda data: data.update(format="other"),
    r"no whole recording: steps\[0\] is 7; it should be a valid dictionary": lambda data: data.update(
        steps=[7]
    ),
    "belongs to run 0, of 0": lambda data: data.update(runs=[]),
    r"no whole recording: steps\[0\].event is missing": lambda data: data["steps"][0].pop("event"),
    r"no whole recording: steps\[0\].seq is 'x'; it should be a valid integer": lambda data: data["steps"][
        0
    ].update(seq="x"),
    "no whole recording: places is 3": lambda data: data.update(places=3),
}


@pytest.mark.parametrize("says", WRONG)
async def test_what_is_no_recording_is_refused(says: str) -> None:
    """Another format, a later one, or something missing is one line that says what to do."""
    data = json.loads((await some()).to_json())
    WRONG[says](data)
    with pytest.raises(RecordingError, match=says) as caught:
        Recording.from_json(json.dumps(data), "r.json")
    assert str(caught.value).startswith("r.json")
    assert "\n" not in str(caught.value)


async def test_a_truncated_file_is_refused() -> None:
    """A file that was cut anywhere, also in a text that is JSON, is one line that says so."""
    text = replace(await some(), metadata={"note": '{"a": {"b": 1}}'}).to_json()
    for length in (text.index("1}}") + 2, *range(1, len(text), 97)):
        with pytest.raises(RecordingError) as caught:
            Recording.from_json(text[:length], "r.json")
        assert "ends in the middle" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "{'a': 1}"])
def test_any_text_is_refused_in_one_line(text: str) -> None:
    """Whatever a file holds, reading it ends with one line."""
    with pytest.raises(RecordingError) as caught:
        Recording.from_json(text, "r.json")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    """A missing file, one that is no text, and a place that cannot be written to are one line each."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.json", tmp_path / "bytes", tmp_path):
        with pytest.raises(RecordingError, match=str(path)):
            Recording.load(path)
    with pytest.raises(RecordingError, match="cannot be written"):
        Recording().save(tmp_path / "bytes" / "r.json")


async def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails, the file that was there is whole, and no other is left."""
    path = Recording(pipeline="old").save(tmp_path / "r.json")

    def full(*paths: object) -> None:
        raise OSError(28, "No space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(RecordingError, match="No space left"):
        (await some()).save(path)
    assert Recording.load(path).pipeline == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["r.json"]


def test_reading_runs_nothing() -> None:
    """A recording that names code neither imports nor calls it."""
    text = json.dumps(
        {
            "format": "adk-fluent recording",
            "version": "1.0",
            "metadata": {"$function": "os:system", "args": ["false"]},
            "runs": [{"prompt": {"parts": [{"text": "__import__('os')"}]}}],
        }
    )
    loaded = Recording.from_json(text)
    assert loaded.metadata["$function"] == "os:system"
    assert repr(loaded) == "<Recording of nothing: 1 run, 0 events, 0 model calls, 0 tool calls>"
