"""Asking one expression many prompts, several at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from adk_fluent._tracebacks import briefly
from adk_fluent.errors import ADKFluentError, ArgumentError, RunError, sentence, what_happened

if TYPE_CHECKING:
    from adk_fluent.expr.expression_run import Run

T = TypeVar("T")


@briefly
async def ask_all(
    run: Run[T], prompts: Sequence[Any], concurrency: int, *, return_exceptions: bool
) -> list[T | ADKFluentError]:
    """Ask all prompts and return the answers in order.

    Args:
        run: the expression and its options.
        prompts: the prompts.
        concurrency: most runs at the same time.
        return_exceptions: True if a prompt's error takes the place of its answer.

    Raises:
        RunError: the first error, with the other answers, unless errors are returned.
    """
    whole = isinstance(concurrency, int) and concurrency >= 1  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not whole:  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        raise ArgumentError("map() takes a list of prompts and a positive whole number as concurrency.")
    run.prepare(prompts)
    slots, answers, failed = asyncio.Semaphore(concurrency), dict[int, T](), asyncio.Event()

    async def one(index: int, prompt: Any) -> ADKFluentError | None:
        """Ask one prompt; return its error if errors are returned, else `None`."""
        async with slots:
            if failed.is_set():  # another prompt failed, and this task is not cancelled yet
                return None
            try:
                with _as_ours(index):
                    await run.answer(prompt, lambda answer: answers.update({index: answer}))
            except ADKFluentError as error:
                if return_exceptions:
                    return error
                failed.set()
                raise
            return None

    async with run.opened():
        tasks = [asyncio.ensure_future(one(*each)) for each in enumerate(prompts)]
        try:
            errors = await asyncio.gather(*tasks)
        except ADKFluentError as error:
            await _cancelled(tasks)
            error.answers = dict(sorted(answers.items()))
            raise
        finally:
            await _cancelled(tasks)
    return [answers[index] if error is None else error for index, error in enumerate(errors)]


async def _cancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until each has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _as_ours(index: int) -> Generator[None]:
    """Convert another library's error, which one prompt of a `map` raises, into a `RunError`.

    Raises:
        RunError: the prompt raised such an error, or a `CancelledError` although its task was not cancelled.
    """
    try:
        yield
    except ADKFluentError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # our task was cancelled from outside
            raise
        raise RunError(f"Prompt {index} of map(): a model, tool or step raised CancelledError.") from error
    except Exception as error:
        raise RunError(f"Prompt {index} of map() failed with {sentence(what_happened(error))}") from error
