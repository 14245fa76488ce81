"""Our composites under the names by which ADK's own tools know such agents.

The A2A card and the graph of `adk web` say what a sequence, a fan-out or a loop runs, but only of ADK's own
classes. So ours have these among their bases; all that they do is still ours. ADK announces that it will
remove the classes: where one is missing, a composite does without it.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeVar, cast

from google.adk import agents
from google.adk.agents.base_agent import BaseAgent

A = TypeVar("A", bound=BaseAgent)


def known_as(name: str, composite: type[A]) -> type[A]:
    """The class `composite`, which ADK's tools take for its own class `name`, if it has one."""
    shell = getattr(agents, name, None)
    if shell is None:
        return composite
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # deriving from it says that it will be removed
        made = cast(Any, type(composite))(
            composite.__name__,
            (composite, shell),
            {"__module__": composite.__module__, "__doc__": composite.__doc__},
        )
    return cast("type[A]", made)
