"""`adk-fluent demo`: the support desk at work, live."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.cli.conversation import Conversation
from adk_fluent.cli.demo import support
from adk_fluent.cli.errors import KEYS, UsageError
from adk_fluent.cli.paper import Paper, paper
from adk_fluent.cli.screen import Screen, brief
from adk_fluent.cli.target import Target
from adk_fluent.errors import LocalModelError
from adk_fluent.local.engine import INSTALL, installed
from adk_fluent.viz.diagrams import to_outline

if TYPE_CHECKING:
    from google.adk.models import BaseLlm

    from adk_fluent.backends.adk.api import ADKBackend

PROMPT: Final = "My flight to London was cancelled, I want to rebook"

SCRIPT: Final[Mapping[str, str]] = {
    "triage": '{"team": "booking"}',
    "booking": '{"reply": "We can book you on the next flight to London."}',
    "billing": '{"reply": "I am sorry about the charge, we will send the money back."}',
    "technical": '{"reply": "Please restart the app and try again."}',
    "tone": '{"tone": "upset"}',
    "sentiment": '{"sentiment": "negative"}',
    "reply": '{"reply": "Dear customer, we apologize for the inconvenience."}',
}
"""What the agents say in a scripted run."""

ABOUT_SCRIPT: Final = "No model: the answers are written in advance, and everything else is real."
ABOUT_LOCAL: Final = (
    "Model: SmolLM2 with 135 million parameters, running in this process. It writes fluently and knows next "
    "to nothing, so watch what the pipeline does, not what the model says."
)


def demo(*, scripted: bool, model: str | None, prompt: str | None) -> int:
    """Run the support desk once, showing everything that happens.

    Args:
        scripted: fixed answers in place of a model; the output is the same every time.
        model: a Gemini model's name in place of the model in this process.
        prompt: what the customer writes.

    Raises:
        UsageError: options that exclude each other, or a Gemini model without a key.
        LocalModelError: the extra `local` is not installed.
        FailedRunError: the model failed.
    """
    if scripted and model:
        raise UsageError("demo takes --scripted or --model, not both.")
    if model and not any(os.environ.get(key) for key in KEYS):
        raise UsageError(f"--model {model} needs GOOGLE_API_KEY; set it, or leave --model out.")
    prompt = PROMPT if prompt is None else prompt
    if not prompt.strip():
        raise UsageError("--prompt is empty.")
    if not (scripted or model or installed()):
        raise LocalModelError(
            f"The demo's small model is missing. Without it: adk-fluent demo --scripted; to get it: {INSTALL}"
        )
    asyncio.run(_show(paper(sys.stdout), prompt, scripted, model))
    return 0


async def _show(out: Paper, prompt: str, scripted: bool, model: str | None) -> None:
    about = ABOUT_SCRIPT if scripted else f"Model: {model}." if model else ABOUT_LOCAL
    out.line(("adk-fluent demo", "strong"), " · an airline's support desk")
    out.paragraph(about, "faint")
    out.line()
    # All this takes no ADK, which takes seconds to load: something to read meanwhile.
    out.line(("The pipeline", "strong"))
    for line in to_outline(support("any").to_ir()).splitlines():
        out.line(f"  {line}")
    out.line()
    out.line(("you", "user"))
    out.paragraph(prompt, indent=2)
    out.line()
    out.line(("Loading google-adk" + (" and the model" * (not scripted and not model)) + " …", "faint"))
    out.line()
    pipeline = support("scripted" if scripted else model or _local())
    talk = Conversation(Target(pipeline, "support"), backend=_script() if scripted else None)
    screen = Screen(out, talk.root, None if scripted else time.perf_counter, verbose=True)
    began = time.perf_counter()
    try:
        async with aclosing(talk.turn(prompt)) as events:
            async for event in events:
                screen.show(event)
    finally:
        screen.end()
    state = await talk.state()
    _summary(out, state, screen, time.perf_counter() - began)


def _script() -> ADKBackend:
    from adk_fluent.testing import mock_backend

    return mock_backend(SCRIPT)


def _local() -> BaseLlm:
    from adk_fluent.local import LocalLlm

    return LocalLlm(max_tokens=80)


def _summary(out: Paper, state: Mapping[str, Any], screen: Screen, seconds: float) -> None:
    """What came of it; short enough for a small terminal, since nothing follows it."""
    out.line()
    out.line(("The letter", "strong"))
    out.paragraph(str(state["letter"]), indent=2)
    out.line()
    out.line(("The state", "strong"))
    width = max(map(len, state))
    for key, value in state.items():
        out.line(("  " + key.ljust(width) + "  ", "agent"), brief(value))
    out.line()
    if screen.clock:
        usage = screen.usage
        out.line((f"{usage.calls} model calls   {usage.total_tokens} tokens   {seconds:.1f} s", "faint"))
    out.line(("Make one of your own: adk-fluent new my_agent", "faint"))
