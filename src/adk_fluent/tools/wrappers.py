"""What is done around the calls of a tool; it keeps its name, description and schema.

Around a set of tools, each of them is wrapped.
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
    """Base of the operations around a tool.

    Attributes:
        tool: the tool, or several.
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
class Confirm(Wrapper):
    """A person must approve each call.

    Attributes:
        when: a function of the call's arguments that says whether; `None` is always.
    """

    op: ClassVar[str] = "confirm"

    when: Callable[..., bool] | None = None

    @property
    def asks(self) -> bool:
        return True


@frozen
class Timeout(Wrapper):
    """A call that takes too long is given up."""

    op: ClassVar[str] = "timeout"

    seconds: float


@frozen
class Cache(Wrapper):
    """What a call gave is given again for the same arguments.

    Attributes:
        ttl: seconds that a result is kept; `None` as long as the process runs.
        key: what makes two calls the same, of their arguments, and of the context of the call if it takes
            that; by default all arguments.
    """

    op: ClassVar[str] = "cache"

    ttl: float | None = None
    key: Callable[..., Hashable] | None = None

    @property
    def by_arguments(self) -> bool:
        return self.key is None


@frozen
class Retry(Wrapper):
    """A call that raises is made again after a wait, as the middleware `retry` does it.

    Attributes:
        attempts: how often the tool may be called.
        backoff_base: seconds of the first wait.
        on: which errors are worth another call; `None` for those that may pass.
        jitter: whether the waits vary.
    """

    op: ClassVar[str] = "retry"

    attempts: int = 3
    backoff_base: float = 1.0
    on: Retryable | None = None
    jitter: bool = True


@frozen
class Transform(Wrapper):
    """What goes in and comes out is changed.

    Attributes:
        pre: arguments → arguments.
        post: result → result.
    """

    op: ClassVar[str] = "transform"

    pre: Callable[[dict[str, Any]], Any] | None = None
    post: Callable[[Any], Any] | None = None


def needs_key(name: str | None) -> str:
    """What is wrong with a cache that could give one user the result of another."""
    called = "a tool" if name is None else repr(name)
    return (
        f"T.cache() of {called} needs key=, since it sees who calls it: without one, a user is given the "
        "result of another. Write key=lambda args, context: (context.user_id, *sorted(args.items()))."
    )
