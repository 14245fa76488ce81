"""The browser in which tests open pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from tests.limits import LIMIT

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

BROWSER_LIMIT = 1000 * LIMIT
"""`LIMIT` in the milliseconds in which a browser counts; pages of `new_page` have it."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_program() -> str:
    """The browser to use: `./dev test` finds or installs one."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found, "no browser: run ./dev test, or set CHROMIUM to a Chromium or Chrome"
    return found


in_browser: Final = pytest.mark.asyncio(loop_scope="session")
"""Marks a test that uses the browser, which lives in the event loop of all such tests."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """A headless browser, which starts once for all tests of this process."""
    from playwright.async_api import async_playwright

    without_gpu = ("--disable-gpu", "--disable-software-rasterizer")  # which takes a fifth of its time
    options: dict[str, Any] = {
        "executable_path": browser_program(),
        "args": ["--no-sandbox", *without_gpu],
    }
    async with async_playwright() as driver:
        running = await driver.chromium.launch(timeout=BROWSER_LIMIT, **options)
        yield running
        await running.close()


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """The browser; the pages that a test opens are closed when it ends."""
    yield chromium
    for context in chromium.contexts:
        await context.close()


async def new_page(browser: Browser, **options: Any) -> Page:
    """Open a page in a separate context."""
    context = await browser.new_context(**options)
    context.set_default_timeout(BROWSER_LIMIT)
    return await context.new_page()
