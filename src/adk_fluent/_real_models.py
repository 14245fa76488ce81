"""The guard that keeps tests from calling real models, which cost money.

The pytest plugin runs each test inside `forbidden()`. The backend calls `check()` before it asks a model.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from adk_fluent.errors import RealModelError

_forbidden: list[None] = []
"""One element for each `forbidden()` block that is open, in any thread: a test may start threads."""

_watched: list[None] = []
"""Not empty in a process that runs tests."""


def watch() -> None:
    """Make apps that are built from now on guard the models of native agents, too."""
    _watched.append(None)


def watched() -> bool:
    """True if apps guard the models of native agents."""
    return bool(_watched)


@contextmanager
def forbidden() -> Generator[None]:
    """Raise `RealModelError` for each call of a real model inside this block."""
    _forbidden.append(None)
    try:
        yield
    finally:
        _forbidden.pop()


def forbids(model: object) -> bool:
    """True if real models are forbidden, and this model is of one of ADK's classes."""
    return forbids_class(type(model))


def forbids_class(cls: type) -> bool:
    """True if real models are forbidden, and this is one of ADK's model classes."""
    return bool(_forbidden) and cls.__module__.startswith("google.adk.")


def check(model: object, agent: str) -> None:
    """Refuse a call of one of ADK's models, if real models are forbidden.

    Raises:
        RealModelError: real models are forbidden, and this is one.
    """
    if forbids(model):
        name = getattr(model, "model", type(model).__name__)
        raise refusal(f"Agent {agent!r}", name, "Run it with backend=mock_backend({...})")


def refusal(who: str, model: str, remedy: str) -> RealModelError:
    """The error that names the caller and its real model, and says what to do instead."""
    return RealModelError(
        f"{who} would ask the real model {model!r}. {remedy}, "
        "or allow it: @pytest.mark.real_model, or pytest --allow-real-models."
    )
