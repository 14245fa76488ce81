"""`VizBackend`: compiles an expression to a picture of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Literal

from adk_fluent import viz
from adk_fluent.backends.events import AgentEvent
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, BackendError
from adk_fluent.ir.base import Node

_FORMATS: Final = ("mermaid", "svg", "html", "png")


class VizBackend:
    """Compiles expressions to pictures, as `expr.visualize()` draws them, and runs nothing.

    Args:
        format: `mermaid`, `svg` and `html` give text, `png` bytes.

    Raises:
        ArgumentError: there is no such format.

    Example:
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("a").writes("x") >> Agent("b").instruct("Use {x}.")
        >>> print(VizBackend().compile(pipeline.node))  # doctest: +ELLIPSIS
        flowchart TD
        ...
    """

    def __init__(self, format: Literal["mermaid", "svg", "html", "png"] = "mermaid") -> None:
        if format not in _FORMATS:
            raise ArgumentError(f"VizBackend(format={format!r}): choose one of {', '.join(_FORMATS)}.")
        self._draw: Callable[[Node], str | bytes] = getattr(viz, f"to_{format}")

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> str | bytes:
        """The picture of `node`.

        Raises:
            MissingExtraError: `png` without the extra.
        """
        return self._draw(node)

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        """It runs nothing.

        Raises:
            BackendError: always.
        """
        raise _runs_nothing("run")

    def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncIterator[AgentEvent]:
        """It runs nothing.

        Raises:
            BackendError: always.
        """
        raise _runs_nothing("stream")


def _runs_nothing(method: str) -> BackendError:
    return BackendError(
        f"VizBackend draws expressions and runs nothing, so {method}() gives no answer. For the picture call "
        "compile(node), or expression.visualize(); to run, take another backend, such as ADKBackend()."
    )
