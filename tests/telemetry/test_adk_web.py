"""What adk-fluent says on spans, in the trace view of `adk web`, in a real browser."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.browser import browser_program
from tests.limits import within_limit

pytestmark = pytest.mark.newest

AGENT = """
from adk_fluent import Agent
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from tests.telemetry.test_spans import model
from tests.telemetry.tracing import answer

writer = Agent("writer", model(answer("A draft."))).writes("draft")
pipeline = writer >> Agent("editor", model(answer("Dear Ann"))).instruct("Edit {draft}.")
app = pipeline.named("mail").to_app(ExecutionConfig(app_name="letters", telemetry=TelemetryConfig()))
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """Where `adk web` serves a folder with that agent."""
    folder = tmp_path / "agents" / "letters"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "agent.py").write_text(AGENT)
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "google.adk.cli", "web", "--port", "0", str(folder.parent)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert server.stderr is not None
    try:
        where = await within_limit(listening(server.stderr))
        rest = asyncio.create_task(server.stderr.read())
        yield where
        server.terminate()
        await within_limit(server.wait())
        await within_limit(rest)
    finally:
        if server.returncode is None:
            server.kill()


async def listening(log: asyncio.StreamReader) -> str:
    """The address that a server says it listens on."""
    said = b""
    while not (found := re.search(rb"Uvicorn running on (http://\S+)", said)):
        line = await log.readline()
        said += line
        assert line, said.decode()
    return found[1].decode()


async def test_the_trace_view_shows_what_adk_fluent_says(address: str) -> None:
    """The trace view of `adk web` lists our attributes on agents and models; offline, only fonts lack."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=browser_program(), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1500, "height": 1000})
        asked: set[str | None] = set()
        page.on("request", lambda request: asked.add(urlsplit(request.url).hostname))
        await page.route(re.compile("//(?!127.0.0.1)"), lambda route: route.abort())
        await page.goto(f"{address}/dev-ui/?app=letters")
        await page.get_by_text("No Thanks").click()
        await page.locator("textarea").first.fill("Write to Ann")
        await page.keyboard.press("Enter")
        await page.get_by_text("Dear Ann").first.wait_for()
        await page.get_by_text("Traces", exact=True).click()

        await page.get_by_text("generate_content").first.click()
        await page.locator("mat-icon").get_by_text(re.compile("^list")).first.click()
        await page.get_by_text("adk_fluent.cost_usd").wait_for()
        of_model = await page.inner_text("body")
        assert re.search(r"adk_fluent\.agent_name\s+writer", of_model)
        assert re.search(r"adk_fluent\.actual_input_tokens\s+1000", of_model)
        assert re.search(r"adk_fluent\.pipeline\s+mail", of_model)

        await page.get_by_text("editor", exact=True).last.click()
        await page.get_by_text("adk_fluent.visibility").wait_for()
        of_agent = await page.inner_text("body")
        assert re.search(r"adk_fluent\.visibility\s+user", of_agent)
        assert re.search(r"adk_fluent\.node_type\s+agent", of_agent)
        assert asked <= {"127.0.0.1", "fonts.gstatic.com", "fonts.googleapis.com", None}
        await browser.close()
