"""What is done around the calls of a tool; it keeps its name, description and schema.

Around a set of tools, each of them is wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import Access
from adk_fluent.ir.tools import confirms, tool_access, tool_name
from adk_fluent.tools.spec import Tool

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
        key: what makes two calls the same, of their arguments; by default all of them.
    """

    op: ClassVar[str] = "cache"

    ttl: float | None = None
    key: Callable[[dict[str, Any]], Hashable] | None = None


@frozen
class Retry(Wrapper):
    """A call that raises is made again.

    Attributes:
        attempts: how often the tool may be called.
    """

    op: ClassVar[str] = "retry"

    attempts: int = 3


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
