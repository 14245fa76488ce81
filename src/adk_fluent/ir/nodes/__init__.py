"""Every IR node type.

Nodes that mirror an ADK agent inherit its fields from `_generated`; the others have no ADK counterpart.
"""

from __future__ import annotations

from typing import Final

from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes.agents import (
    CALLBACK_FIELDS,
    CALLBACKS,
    AgentNode,
    ModelSelectorNode,
    RemoteAgentNode,
    agent_of,
    agents_in,
    templates_in,
)
from adk_fluent.ir.nodes.composites import (
    NO_LIMIT,
    FallbackNode,
    LoopNode,
    MapOverNode,
    ParallelNode,
    RaceNode,
    RouteNode,
    SequenceNode,
    TimeoutNode,
)
from adk_fluent.ir.nodes.native import KnownNativeNode, NativeNode
from adk_fluent.ir.nodes.steps import (
    ArtifactNode,
    CaptureNode,
    Changes,
    GateNode,
    PieceFn,
    Pieces,
    PiecesFn,
    StepFn,
    TapFn,
    TapNode,
    TransferNode,
    TransformFn,
    TransformNode,
)

__all__ = [
    "CALLBACKS",
    "CALLBACK_FIELDS",
    "NODE_TYPES",
    "NO_LIMIT",
    "AgentNode",
    "ArtifactNode",
    "CaptureNode",
    "Changes",
    "FallbackNode",
    "GateNode",
    "KnownNativeNode",
    "LoopNode",
    "MapOverNode",
    "ModelSelectorNode",
    "NativeNode",
    "ParallelNode",
    "PieceFn",
    "Pieces",
    "PiecesFn",
    "RaceNode",
    "RemoteAgentNode",
    "RouteNode",
    "SequenceNode",
    "StepFn",
    "TapFn",
    "TapNode",
    "TimeoutNode",
    "TransferNode",
    "TransformFn",
    "TransformNode",
    "agent_of",
    "agents_in",
    "templates_in",
]


NODE_TYPES: Final[tuple[type[Node], ...]] = (
    AgentNode,
    SequenceNode,
    ParallelNode,
    LoopNode,
    TransformNode,
    RouteNode,
    FallbackNode,
    RaceNode,
    GateNode,
    TapNode,
    MapOverNode,
    TimeoutNode,
    TransferNode,
    CaptureNode,
    ModelSelectorNode,
    RemoteAgentNode,
    ArtifactNode,
    NativeNode,
    KnownNativeNode,
)
"""Every node type; a test holds each consumer of the IR against this list."""
