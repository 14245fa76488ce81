"""What of a stack acts where a run is decided, and what in the worker that asks the model.

A durable run is decided again from its history, which knows nothing of other runs. Middleware that goes by
these acts around the real call, and so does what stands inside of it and needs the call alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

from google.adk.models.llm_request import LlmRequest

from adk_fluent.backends.adk.middleware.context import HookContext
from adk_fluent.backends.adk.middleware.stack import Hook, Stack
from adk_fluent.errors import BackendError
from adk_fluent.middleware.keeping import Kept

_AROUND: Final = "_adk_fluent_around_model"


class Around(NamedTuple):
    """What stands around the call of a model in the worker that makes it.

    Attributes:
        ctx: where the run is.
        hooks: the layers, the outermost first.
    """

    ctx: HookContext
    hooks: tuple[Hook, ...]


def moves(middleware: object) -> bool:
    """Whether a middleware may act in the worker that asks the model."""
    return _is(middleware, "remembers") or _is(middleware, "_portable")


_is_decided: ContextVar[bool] = ContextVar("adk_fluent_decided", default=False)


def decided_here() -> None:
    """From here on, in this task and those it starts, runs are only decided, and models asked by workers."""
    _is_decided.set(True)


def parted(hooks: tuple[Hook, ...]) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
    """The layers around a model that act here, then those that act in the worker that asks it, if another."""
    if not _is_decided.get():
        return hooks, ()
    here, there = list[Hook](), list[Hook]()
    for hook in hooks:
        within = bool(there) or _is(hook.middleware, "remembers")
        (there if within and moves(hook.middleware) else here).append(hook)
    return tuple(here), tuple(there)


def check_places(stacks: Iterable[tuple[str, Stack]]) -> None:
    """Check that all middleware can act in its place.

    Args:
        stacks: each agent with what acts on it.

    Raises:
        BackendError: one that goes by earlier runs cannot act in a worker, or has one inside that cannot.
    """
    for agent, stack in stacks:
        for each in stack.middleware:
            if _is(each, "remembers"):
                _check_alone(each, agent)
        outer: Hook | None = None
        for hook in stack.hooks.get("around_model", ()):
            if outer is None and _is(hook.middleware, "remembers"):
                outer = hook
            elif outer is not None and not (
                moves(hook.middleware) or _is(hook.middleware, "_by_usage") or hook.observes
            ):
                raise BackendError(
                    f"{hook.owner} at {agent!r} stands inside of {outer.owner}, which acts in the worker "
                    f"that asks the model; {hook.owner} cannot act there. Put it before that, or run on "
                    "ADKBackend()."
                )


def _check_alone(middleware: object, agent: str) -> None:
    name = type(middleware).__name__
    others = sorted(Stack([middleware]).hooks.keys() - {"around_model"})
    kept = [key for key, value in vars(middleware).items() if isinstance(value, Kept)]
    if others or kept:
        what = f"its hook {others[0]}" if others else f"what it keeps in {kept[0]!r}"
        raise BackendError(
            f"{name} at {agent!r} goes by earlier runs, so it acts in the worker that asks the model, and "
            f"{what} cannot. Leave that out, or run on ADKBackend()."
        )


def _is(middleware: object, trait: str) -> bool:
    return getattr(middleware, trait, False) is True


def surrounded(request: LlmRequest, ctx: HookContext, hooks: tuple[Hook, ...]) -> LlmRequest:
    """A request that says what stands around the model in the worker."""
    made = request.model_copy()
    cast(dict[str, Any], made.__dict__)[_AROUND] = Around(ctx, hooks)
    return made


def around_of(request: LlmRequest) -> Around | None:
    """What stands around the model in the worker, if anything does."""
    return request.__dict__.get(_AROUND)
