"""The operations that wrap the calls of a tool; the tool keeps its name, description and schema.

A wrapper of several tools wraps each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import Access
from adk_fluent.ir.tools import confirms, tool_access, tool_name
from adk_fluent.tools.spec import Tool

if TYPE_CHECKING:
    from adk_fluent.middleware.retrying import Retryable

Arguments = Mapping[str, Any]


@frozen
class Wrapper(Tool):
    """Base of the operations that wrap a tool.

    Attributes:
        tool: the tool, or several tools.
    """

    tool: object

    @property
    def called(self) -> str | None:
        return tool_name(self.tool)

    @property
    def access(self) -> Access:
        return tool_access(self.tool)

    @property
    def asks(self) -> bool:
        return confirms(self.tool)

    @property
    def held(self) -> tuple[object, ...]:
        return (self.tool,)


@frozen
class ConfirmedTool(Wrapper):
    """Ask a person to approve each call.

    Attributes:
        when: a function of the call's arguments that returns True if this call needs an approval; `None` if
            every call does.
    """

    op: ClassVar[str] = "confirm"

    when: Callable[..., bool] | None = None

    @property
    def asks(self) -> bool:
        return True


@frozen
class TimedTool(Wrapper):
    """Cancel a call that takes longer than `seconds`."""

    op: ClassVar[str] = "timeout"

    seconds: float


@frozen
class CachedTool(Wrapper):
    """Return the stored result of an earlier call with the same arguments.

    Attributes:
        ttl: seconds that a result is kept; `None` for as long as the process runs.
        key: a function of the arguments, and of the call's context if it has a second parameter. Calls with
            equal keys share a result. By default the key is all arguments.
    """

    op: ClassVar[str] = "cache"

    ttl: float | None = None
    key: Callable[..., Hashable] | None = None

    @property
    def by_arguments(self) -> bool:
        return self.key is None


@frozen
class RetriedTool(Wrapper):
    """Repeat a call that raises, after a wait, as the middleware `retry` does it.

    Attributes:
        attempts: the most calls, the first one included.
        backoff_base: the first wait, in seconds.
        on: the errors to retry; `None` for temporary errors.
        jitter: vary the waits at random.
    """

    op: ClassVar[str] = "retry"

    attempts: int = 3
    backoff_base: float = 1.0
    on: Retryable | None = None
    jitter: bool = True


@frozen
class TransformedTool(Wrapper):
    """Change the arguments and the result of each call.

    Attributes:
        pre: arguments → arguments.
        post: result → result.
    """

    op: ClassVar[str] = "transform"

    pre: Callable[[dict[str, Any]], Any] | None = None
    post: Callable[[Any], Any] | None = None


def needs_key(name: str | None) -> str:
    """The message for a cache without a key around a tool that sees its user.

    Such a cache could give one user the result of another.
    """
    called = "a tool" if name is None else repr(name)
    return (
        f"T.cache() of {called} needs key=, because the tool sees who calls it: without a key, one user gets "
        "another user's result. Write key=lambda args, context: (context.user_id, *sorted(args.items()))."
    )
