"""`rate_limiter`: so many calls in so many seconds."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, ClassVar, Final, Literal, cast

from adk_fluent.errors import ArgumentError, MiddlewareError, RateLimitError
from adk_fluent.middleware.arguments import one_of, positive
from adk_fluent.middleware.buckets import TokenBucket
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Shared
from adk_fluent.middleware.protocol import CallModel, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

FEW: Final = 64
"""Up to so many buckets are never looked through for those that are full again."""

Key = Literal["model", "agent"] | Callable[[Context], "Hashable | Awaitable[Hashable]"]
"""What has a rate of its own: each model, each agent, or whatever a function of the context gives."""


def rate_limiter(
    rate: float,
    per: float = 1.0,
    on_limit: Literal["wait", "refuse"] = "wait",
    key: Key = "model",
) -> RateLimiter:
    """Let no more than `rate` model calls through in each `per` seconds.

    It is a token bucket: after a rest `rate` calls may pass at once, then one each `per / rate` seconds; so
    never more than `rate + rate * t / per` in `t` seconds. Those who wait pass in the order in which they
    came; who is cancelled while waiting costs the others nothing. All runs in this process that one object
    acts on share its rate.

    Args:
        rate: how many calls.
        per: in how many seconds; `rate_limiter(60, per=60)` is 60 a minute.
        on_limit: `wait` until a call may pass, or `refuse` it with `RateLimitError`, which says in
            `.retry_after` when to come back (an outer `retry` does, and `//` catches it).
        key: what has a rate of its own: each `model`, each `agent`, or what a function of the context gives,
            async or not, such as `lambda ctx: ctx.user_id`.

    Raises:
        ArgumentError: a number is out of range, or a word or key is none of these.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> agent = Agent("a").middleware(rate_limiter(1, per=3600, on_limit="refuse"))
        >>> backend = mock_backend({"a": "Yes."})
        >>> asyncio.run(agent.ask_async("One?", backend=backend))
        'Yes.'
        >>> asyncio.run(agent.ask_async("Another?", backend=backend))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        adk_fluent.errors.RateLimitError: 'a' was not let through: ...
    """
    return RateLimiter(rate, per, on_limit, key)


class _Buckets(dict[Hashable, TokenBucket]):
    """The buckets by key; from `most` on, those that are full again go."""

    most = FEW


class RateLimiter(Middleware):
    """What `rate_limiter()` makes."""

    _keeps_answers: ClassVar[bool] = True
    remembers: ClassVar[bool] = True

    def __init__(self, rate: float, per: float, on_limit: Literal["wait", "refuse"], key: Key) -> None:
        self._rate = positive(rate, "rate_limiter(rate=)")
        self._per = positive(per, "rate_limiter(per=)")
        self._waits = one_of(on_limit, ("wait", "refuse"), "rate_limiter(on_limit=)") == "wait"
        if not callable(key) and key not in ("model", "agent"):
            raise ArgumentError(
                f"rate_limiter(key=) is 'model', 'agent' or a function of the context, not {key!r:.40}."
            )
        self._key: Key = key
        self._buckets: Shared[_Buckets] = self.shared(_Buckets)

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask the model when its turn has come."""
        key = await self._key_of(ctx, request)
        bucket = self._bucket(self._buckets(ctx), key)
        if self._waits:
            await bucket.wait()
        elif not bucket.take():
            raise self._refusal(ctx.agent_name, key, bucket.missing())
        async for response in call(request):
            yield response

    async def _key_of(self, ctx: Context, request: LlmRequest) -> Hashable:
        if self._key == "model":
            return request.model
        if self._key == "agent":
            return ctx.agent_name
        made = self._key(ctx)
        if inspect.isawaitable(made):
            made = await made
        try:
            hash(made)
        except TypeError as error:
            raise MiddlewareError(
                f"{ctx.agent_name!r}: rate_limiter(key=) gave {made!r:.40}, which is no key; "
                "give a text or a number."
            ) from error
        return made

    def _bucket(self, buckets: _Buckets, key: Hashable) -> TokenBucket:
        if key not in buckets and len(buckets) >= buckets.most:
            # A full bucket is as good as a new one, so only as many stay as are in use.
            for known in [known for known, bucket in buckets.items() if bucket.idle]:
                del buckets[known]
            buckets.most = max(FEW, 2 * len(buckets))
        return buckets.setdefault(key, TokenBucket(self._rate, self._per))

    def _refusal(self, agent: str, key: Hashable, left: float) -> RateLimitError:
        of = "" if key == agent else f" of {cast(object, key)!r}"
        refused = RateLimitError(
            f"{agent!r} was not let through: the rate{of} is {self._rate:g} in {self._per:g} s, and the next "
            f"call may pass in {left:.1f} s. Come back then, or let it wait with on_limit='wait'."
        )
        refused.retry_after = left
        return refused
