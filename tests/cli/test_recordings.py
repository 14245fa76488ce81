"""`adk-fluent record`, `replay` and `diff`: what they write and the codes they end with."""

from __future__ import annotations

from pathlib import Path

import pytest

from adk_fluent.debug import Recording
from tests.cli.commands import PIPELINES, Cli

FLOW = """
from adk_fluent import Agent
from tests.cli.targets.pipelines import Says

writer = Agent("writer", Says(text={text!r})).instruct({prompt!r}).writes("draft")
pipeline = writer >> Agent("editor", Says(text="Hello."))
"""


def flow(folder: Path, *, text: str = "Hello there.", prompt: str = "Write.") -> Path:
    """A file with a pipeline."""
    path = folder / "flow.py"
    path.write_text(FLOW.format(text=text, prompt=prompt))
    return path


def test_a_run_is_recorded_and_replayed(cli: Cli) -> None:
    """`record` answers as `run` does and writes a file, with which `replay` finds no difference."""
    target = "tests.cli.targets.pipelines:pipeline"
    done = cli("record", target, "hi", "-o", "deep/r.json", "--state", "tier=gold")
    assert (done.code, done.out) == (0, "Hello.\n")
    said = "<Recording of sequence: 1 run, 2 events, 2 model calls, 0 tool calls>"
    assert done.err == f"{said} is in deep/r.json\n"
    assert Recording.load("deep/r.json").runs[0].state == {"tier": "gold"}
    done = cli("replay", "deep/r.json", target)
    assert (done.code, done.out) == (0, "No difference: the same 2 events.\n")


def test_what_a_change_does_is_shown(cli: Cli, tmp_path: Path) -> None:
    """A changed prompt ends `replay` with what changed, and the code 1; live models go on."""
    path = flow(tmp_path)
    assert cli("record", path, "hi", "-o", "a.json").code == 0
    flow(tmp_path, text="Hello world.", prompt="Sing.")
    done = cli("replay", "a.json", path)
    assert done.code == 1
    assert "Agent 'writer', call 1" in done.out
    assert "    - Write.\n    + Sing." in done.out
    live = cli("replay", "a.json", path, "--on-mismatch", "live")
    assert live.code == 1
    assert "~ writer: content, state_delta changed" in live.out
    assert live.out.endswith("The pipelines differ.\n")


def test_two_recordings_are_compared(cli: Cli, tmp_path: Path) -> None:
    """`diff` exits with 0 for the same and with 1 for a difference, which a page shows as well."""
    path = flow(tmp_path)
    cli("record", path, "hi", "-o", "a.json")
    cli("record", path, "hi", "-o", "b.json")
    assert (cli("diff", "a.json", "b.json").code, cli("diff", "a.json", "a.json").code) == (0, 0)
    flow(tmp_path, text="Goodbye.")
    cli("record", path, "hi", "-o", "c.json")
    done = cli("diff", "a.json", "c.json", "--html", "page.html")
    assert done.code == 1
    assert "    - Hello there.\n    + Goodbye." in done.out
    assert "Goodbye." in Path("page.html").read_text()


def test_a_step_is_shown(cli: Cli) -> None:
    """`--until` shows the state at a step, its place, and what each agent would see next."""
    cli("record", f"{PIPELINES}:pipeline", "hi", "-o", "r.json")
    done = cli("replay", "r.json", f"{PIPELINES}:pipeline", "--until", "1")
    assert done.code == 0
    assert done.out.startswith("step 1: sequence[0].writer: Hello from the writer.\n  draft = ")
    assert "editor sees next:" in done.out
    same = cli("replay", "r.json", f"{PIPELINES}:pipeline", "--until", "writer")
    assert same.out == done.out


def test_a_failed_run_is_recorded(cli: Cli) -> None:
    """A run that fails is written down as far as it went, and ends as `run` would."""
    done = cli("record", f"{PIPELINES}:failing", "hi", "-o", "r.json")
    assert done.code == 1
    assert "the line is dead" in done.err
    recording = Recording.load("r.json")
    assert [event.author for event in recording.events] == ["writer"]
    assert recording.runs[0].error is not None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("replay", "none.json", f"{PIPELINES}:pipeline"), "none.json cannot be read"),
        (("replay", "r.json", f"{PIPELINES}:pipeline", "--until", "9"), "There is no step 9"),
        (("diff", "r.json", PIPELINES), "is no recording of adk-fluent"),
        (("diff", "r.json", "r.json", "--html", "no/page.html"), "cannot be written"),
        (("record", f"{PIPELINES}:pipeline", " ", "-o", "x.json"), "PROMPT is empty"),
        (("record", f"{PIPELINES}:pipeline", "hi"), "-o/--output"),
    ],
    ids=lambda value: None if isinstance(value, tuple) else value[:18],
)
def test_wrong_usage_is_one_line(cli: Cli, arguments: tuple[object, ...], says: str) -> None:
    """What cannot be read, compared or shown is one line, and the code 2."""
    cli("record", f"{PIPELINES}:pipeline", "hi", "-o", "r.json")
    done = cli(*arguments)
    assert done.code == 2
    assert says in done.err.splitlines()[-1]


@pytest.mark.parametrize("other", ["both", "native"])
def test_another_pipeline_is_told(cli: Cli, other: str) -> None:
    """A recording of another pipeline, or of an agent made with ADK alone, says which agents it has."""
    cli("record", f"{PIPELINES}:pipeline", "hi", "-o", "r.json")
    done = cli("replay", "r.json", f"{PIPELINES}:{other}")
    assert done.code == 1
    assert "was never asked in the recording. It has writer, editor." in done.out
