"""Waits with a limit return the awaited value, or name what did not come."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.limits import LIMIT, in_thread, in_time, last_words, line_with


@contextmanager
def python(program: str) -> Generator[subprocess.Popen[str]]:
    """A process that runs a program; it ends with the block."""
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=LIMIT)


def fails() -> None:
    """A function that raises a `TimeoutError` itself."""
    raise TimeoutError("own")


async def test_a_function_that_returns_in_time() -> None:
    """A function within the limit returns its value or raises its error, even a `TimeoutError`."""
    assert await in_thread(divmod, 7, 2) == in_time(divmod, 7, 2) == (3, 1)
    with pytest.raises(TimeoutError, match="own"):
        await in_thread(fails)
    with pytest.raises(TimeoutError, match="own"):
        in_time(fails)


async def test_a_function_that_does_not() -> None:
    """A function over the limit fails the test, and does not block its end."""
    never = threading.Event()
    with pytest.raises(AssertionError, match=r"did not return within 0\.01 s"):
        await in_thread(never.wait, LIMIT, limit=0.01)
    with pytest.raises(AssertionError, match=r"did not return within 0\.01 s"):
        in_time(never.wait, LIMIT, limit=0.01)
    never.set()


def test_a_line_of_a_process() -> None:
    """The first line with the words is returned, and the process continues."""
    with python("print('one'); print('two: 2'); print('three')") as process:
        assert line_with("two", process) == "two: 2\n"
        last_words(process)
        assert process.returncode == 0


def test_a_line_that_never_comes() -> None:
    """The failure shows all that the process wrote."""
    with python("print('one')") as process, pytest.raises(AssertionError, match=r"wrote 'one\\n' and closed"):
        line_with("two", process)
