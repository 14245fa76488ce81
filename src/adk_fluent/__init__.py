"""adk-fluent: a fluent, typed expression layer over Google's Agent Development Kit.

    from adk_fluent import Agent, Route

    classifier = Agent("classifier", model).instruct("Classify.").writes("intent")
    pipeline = classifier >> Route("intent").eq("booking", booker)

Importing this package, and composing expressions with it, imports no part of ADK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy, listing

__version__ = "0.1.0"

if TYPE_CHECKING:
    from adk_fluent.backends.events import final_text
    from adk_fluent.expr.agent import Agent
    from adk_fluent.expr.artifacts import A
    from adk_fluent.expr.base import FanOut, Loop, Pipeline
    from adk_fluent.expr.context import C
    from adk_fluent.expr.preset import Preset
    from adk_fluent.expr.remote import RemoteAgent
    from adk_fluent.expr.steps import Route, agent, gate, loop_until, tap, transfer, until
    from adk_fluent.expr.tools import T
    from adk_fluent.expr.transforms import S
    from adk_fluent.expr.workflow import map_over, race
    from adk_fluent.prompt.factories import P
    from adk_fluent.state.schema import StateSchema

__all__ = [
    "A",
    "Agent",
    "C",
    "FanOut",
    "Loop",
    "P",
    "Pipeline",
    "Preset",
    "RemoteAgent",
    "Route",
    "S",
    "StateSchema",
    "T",
    "__version__",
    "agent",
    "final_text",
    "gate",
    "loop_until",
    "map_over",
    "race",
    "tap",
    "transfer",
    "until",
]


if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)


def __dir__() -> list[str]:
    return listing(__name__)
