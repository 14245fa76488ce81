"""`adk-fluent demo`: scripted, in a terminal and a pipe, on the small model, and on Gemini's protocol."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from adk_fluent.cli.demo import support
from adk_fluent.cli.show import PROMPT, SCRIPT
from adk_fluent.local.engine import INSTALL
from adk_fluent.testing import mock_backend
from tests.cli.commands import ANSI, Cli, environment, in_terminal, process
from tests.cli.gemini import Behaviour, Gemini, serve
from tests.limits import LIMIT

pytestmark = pytest.mark.newest  # the same on every release

BOOKING = "Agent 'booking' got no answer from its model 'gemini-2.5-flash'"


@pytest.fixture
def gemini_key(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A key that no server of Google's would take."""
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    return monkeypatch


def test_the_scripted_demo_is_the_same_every_time(cli: Cli) -> None:
    """`demo --scripted` in a pipe gives the same text in every process, whatever its hash seed."""
    other_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    piped = process("demo", "--scripted", PYTHONHASHSEED=other_seed)
    assert (piped.returncode, piped.stderr) == (0, b"")
    text = piped.stdout.decode()
    assert text == cli("demo", "--scripted").out
    assert "No model: the answers are written in advance" in text
    assert "\x1b" not in text
    assert not re.search(r"\d\.\d s|\d tokens", text)
    for line in ("◆ team: booking", "∥ at the same time: tone, sentiment", "  → team = booking"):
        assert line in text.splitlines()


def test_the_scripted_demo_shows_picture_state_and_answer(cli: Cli) -> None:
    """The demo begins with the drawn pipeline, and ends with the letter and the whole state."""
    text = cli("demo", "--scripted").out
    picture, loading, letter, state = (
        text.index(f"\n{line}\n")
        for line in ("The pipeline", "Loading google-adk …", "The letter", "The state")
    )
    assert picture < loading < letter < state
    assert "├─ billing    ● billing → draft" in text[picture:loading]
    assert "We can book you on the next flight to London." in text[letter:state]
    for key in ("ticket", "team", "draft", "tone", "sentiment", "opening", "letter"):
        assert re.search(rf"^  {key} +\S", text[state:], re.MULTILINE)


SHOWN_BEFORE_ADK = """
import sys
from adk_fluent.cli import main

class Watched:
    def __init__(self, stream): self.stream = stream
    def __getattr__(self, name): return getattr(self.stream, name)
    def write(self, text):
        if "google.adk" not in sys.modules:
            self.stream.write(text)
        return len(text)

sys.stdout = Watched(sys.stdout)
sys.exit(main(["demo", "--scripted"]))
"""


def test_the_demo_shows_something_before_it_loads_adk() -> None:
    """Picture and prompt are on the screen, and that it loads, while the seconds that ADK takes pass."""
    done = subprocess.run(
        [sys.executable, "-c", SHOWN_BEFORE_ADK], capture_output=True, env=environment(), timeout=LIMIT
    )
    assert (done.returncode, done.stderr) == (0, b"")
    early = done.stdout.decode().strip().splitlines()
    assert early[0] == "adk-fluent demo · an airline's support desk"
    assert "  ● triage → ticket" in early
    assert early[-1] == "Loading google-adk …"


def test_the_last_screen_of_the_demo_fits_a_small_terminal() -> None:
    """From the letter on everything is visible at once in 24 rows of 80 columns, the next prompt included."""
    shown = ANSI.sub("", in_terminal("demo", "--scripted", COLUMNS="80", LINES="24"))
    end = shown[shown.index("The letter") :].rstrip("\n").splitlines()
    rows = sum(1 + max(len(line) - 1, 0) // 80 for line in end)
    assert rows < 24
    assert end[-1] == "Make one of your own: adk-fluent new my_agent"


def test_the_demo_in_a_terminal(cli: Cli) -> None:
    """On a terminal the same words come in colour, wrapped to its width."""
    shown = in_terminal("demo", "--scripted", TERM="xterm-256color", COLUMNS="60")
    plain = ANSI.sub("", shown)
    assert shown != plain
    assert all(len(line) <= 60 for line in plain.split("The state")[0].splitlines() if "→" not in line)
    assert plain.split() == cli("demo", "--scripted").out.split()


@pytest.mark.local
def test_the_demo_on_the_small_model() -> None:
    """On the model in this process the constrained answers hold, and tokens and times are shown."""
    done = process("demo", "--prompt", "I was charged twice for the same ticket")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert "SmolLM2 with 135 million parameters" in text
    triage = r'● triage  internal\n  \{"team":"(booking|billing|technical)"\}\n'
    assert re.search(rf"{triage}  → ticket   \d+ tokens   \d+\.\d s", text)
    assert "Dear customer, we" in text
    assert re.search(r"^5 model calls   \d+ tokens   \d+\.\d s$", text, re.MULTILINE)


@pytest.mark.parametrize("team", ["booking", "billing", "technical"])
async def test_the_support_desk_takes_the_branch_of_the_team(team: str) -> None:
    """The pipeline people copy runs the specialist that triage chose, and no other."""
    backend = mock_backend({**SCRIPT, "triage": json.dumps({"team": team})})
    result = await support("any").run("Hello", backend=backend)
    specialists = {"booking", "billing", "technical"}
    assert specialists & set(backend.calls) - {k for k, calls in backend.calls.items() if not calls} == {team}
    assert result.state["team"] == team
    assert json.loads(SCRIPT[team])["reply"] in result.state["letter"]


async def test_the_support_desk_shows_its_agents_the_customer_only() -> None:
    """No agent of the demo sees what another one said."""
    backend = mock_backend(SCRIPT)
    await support("any").run("Where is my plane?", backend=backend)
    seen = {
        part.text
        for calls in backend.calls.values()
        for request in calls
        for content in request.contents
        for part in content.parts or []
    }
    assert seen == {"Where is my plane?"}


def test_the_demo_on_gemini(cli: Cli, gemini_key: pytest.MonkeyPatch) -> None:
    """With a key and `--model gemini-…` every agent streams from Gemini, with its schema in the request."""
    with serve(Gemini(SCRIPT)) as gemini:
        gemini_key.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        done = cli("demo", "--model", "gemini-2.5-flash")
    assert (done.code, done.err) == (0, "")
    assert "Model: gemini-2.5-flash." in done.out
    assert "5 model calls   125 tokens" in done.out
    assert len(gemini.requests) == 5
    for path, body in gemini.requests:
        assert path.endswith("/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
        assert body["generationConfig"]["responseMimeType"] == "application/json"
        assert [part["text"] for content in body["contents"] for part in content["parts"]] == [PROMPT]


@pytest.mark.parametrize(
    ("behaviour", "line"),
    [
        ("429", f"{BOOKING}: 429 RESOURCE_EXHAUSTED: You exceeded your current quota. Wait and try again"),
        ("500", f"{BOOKING}: 500 INTERNAL: "),
        ("break", f"{BOOKING}: "),
        (
            "hang_up",
            "'booking' answered '{\"reply\": \"We can book you on th' for state key 'draft', which is not a "
            "Booking: it is not JSON: EOF",
        ),
    ],
)
def test_a_failing_gemini_ends_the_demo_with_one_line(
    cli: Cli, gemini_key: pytest.MonkeyPatch, behaviour: Behaviour, line: str
) -> None:
    """A quota error, a server error and streams that end half-way: one line, exit code 1, no summary."""
    with serve(Gemini(SCRIPT, {"booking": behaviour})) as gemini:
        gemini_key.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        done = cli("demo", "--model", "gemini-2.5-flash")
    assert done.code == 1
    assert done.err.startswith(f"adk-fluent: {line}")
    assert done.err.count("\n") == 1
    assert "The letter" not in done.out
    assert "\n● tone" not in done.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--scripted", "--model", "gemini-2.5-flash"), "demo takes --scripted or --model, not both."),
        (("--model", "gemini-2.5-flash"), "--model gemini-2.5-flash needs GOOGLE_API_KEY"),
        (("--scripted", "--prompt", " "), "--prompt is empty."),
    ],
)
def test_options_that_make_no_sense(cli: Cli, arguments: tuple[str, ...], line: str) -> None:
    """Options that exclude each other, a model without a key and an empty prompt are wrong usage."""
    done = cli("demo", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"adk-fluent: {line}")


def test_without_the_small_model_the_demo_says_what_to_do(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra `local` is missing, one line names it and `--scripted`."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    def find_nothing(name: str, package: str | None = None) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    done = cli("demo")
    assert done.code == 1
    assert done.out == ""
    assert "Without it: adk-fluent demo --scripted;" in done.err
    assert done.err.endswith(f" {INSTALL}\n")
