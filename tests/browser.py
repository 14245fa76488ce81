"""The browser in which tests open pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.limits import LIMIT

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

BROWSER_LIMIT = 1000 * LIMIT
"""`LIMIT` in the milliseconds in which a browser counts; pages of `browser.new_page` have it."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_program() -> str:
    """The browser to use: `./dev test` finds or installs one."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found, "no browser: run ./dev test, or set CHROMIUM to a Chromium or Chrome"
    return found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A headless browser."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        running = await driver.chromium.launch(
            executable_path=browser_program(), args=["--no-sandbox"], timeout=BROWSER_LIMIT
        )
        new_page = running.new_page

        async def patient(**options: Any) -> Page:
            page = await new_page(**options)
            page.set_default_timeout(BROWSER_LIMIT)
            return page

        cast(Any, running).new_page = patient
        yield running
        await running.close()
