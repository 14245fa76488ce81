"""`visibility`: a name for what happens by itself."""

from __future__ import annotations

from adk_fluent.middleware.protocol import Middleware


def visibility() -> Visibility:
    """Mark each event with who should see it. This needs no middleware: it is always so.

    `run`, `stream` and `session` mark events themselves, and `to_app()` brings `VisibilityPlugin` for ADK's
    own runners. So this does nothing; `.show()`, `.hide()`, `.filtered()` and `.annotated()` are what there
    is to say.

    >>> from adk_fluent import Agent
    >>> Agent("a").middleware(visibility()).check().ok
    True
    """
    return Visibility()


class Visibility(Middleware):
    """What `visibility()` makes: a middleware without hooks."""
