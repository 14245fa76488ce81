"""Whether models that cost money may be asked; tests forbid it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from adk_fluent.errors import RealModelError

_forbidden: list[None] = []
"""As long as how often it is forbidden; for all threads, since tests run in any."""

_watched: list[None] = []
"""Not empty where it may be forbidden later on, as in a test run."""


def watch() -> None:
    """Have the apps that are made from now on look after the models of native agents, too."""
    _watched.append(None)


def watched() -> bool:
    """Whether apps look after the models of native agents."""
    return bool(_watched)


@contextmanager
def forbidden() -> Generator[None]:
    """Inside, asking a real model raises."""
    _forbidden.append(None)
    try:
        yield
    finally:
        _forbidden.pop()


def forbids(model: object) -> bool:
    """Whether this model is one of ADK's own, and asking those is forbidden."""
    return forbids_class(type(model))


def forbids_class(cls: type) -> bool:
    """Whether models of this class are ADK's own, and asking those is forbidden."""
    return bool(_forbidden) and cls.__module__.startswith("google.adk.")


def check(model: object, agent: str) -> None:
    """Refuse to ask a model of ADK's own, where that is forbidden.

    Raises:
        RealModelError: it is forbidden.
    """
    if forbids(model):
        name = getattr(model, "model", type(model).__name__)
        raise refusal(f"Agent {agent!r}", name, "Run it with backend=mock_backend({...})")


def refusal(who: str, model: str, remedy: str) -> RealModelError:
    """The error that says who would ask a real model, and what to do instead."""
    return RealModelError(
        f"{who} would ask the real model {model!r}. {remedy}, "
        "or allow it: @pytest.mark.real_model, or pytest --allow-real-models."
    )
