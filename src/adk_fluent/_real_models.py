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
    return bool(_forbidden) and type(model).__module__.startswith("google.adk.")


def check(model: object, agent: str) -> None:
    """Refuse to ask a model of ADK's own, where that is forbidden.

    Raises:
        RealModelError: it is forbidden.
    """
    if forbids(model):
        name = getattr(model, "model", type(model).__name__)
        raise RealModelError(
            f"Agent {agent!r} would ask the real model {name!r}. Run it with backend=mock_backend({{...}}), "
            "or allow it: @pytest.mark.real_model, or pytest --allow-real-models."
        )
