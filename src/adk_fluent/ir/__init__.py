"""The intermediate representation (IR): the tree of frozen nodes that an expression holds.

Each class in `nodes` declares everything about one node type: its children, how it runs them, and the state
keys it reads and writes. `walk`, `rewrite`, `resolve_names` and the JSON codec are pure functions over nodes.
This package imports nothing of ADK and no other package but `errors`. Read `base.Node` first, then `nodes`.
"""

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy
from adk_fluent.ir.annotations import (
    Annotations,
    AuthConfig,
    ContentSpec,
    ContextSpec,
    EdgeSemantics,
    ExecutionBoundary,
    Modality,
    ModelCandidate,
    RetryConfig,
    ScalingConfig,
    TransportConfig,
)
from adk_fluent.ir.base import UNSET, Node, Unset, rewrite, walk
from adk_fluent.ir.functions import Access, declares
from adk_fluent.ir.graph import Edge, Named, edges, predecessors, resolve_names, topological_order
from adk_fluent.ir.nodes import (
    NODE_TYPES,
    AgentNode,
    ArtifactNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    KnownNativeNode,
    LoopNode,
    MapOverNode,
    ModelSelectorNode,
    NativeNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TapNode,
    TimeoutNode,
    TransferNode,
    TransformNode,
)
from adk_fluent.ir.predicates import Match

if TYPE_CHECKING:
    from adk_fluent.ir.codec import from_dict, ir_hash, to_dict

# Composing an expression does not need the codec, nor the standard modules that it imports.
__all__ = [
    "NODE_TYPES",
    "UNSET",
    "Access",
    "AgentNode",
    "Annotations",
    "ArtifactNode",
    "AuthConfig",
    "CaptureNode",
    "ContentSpec",
    "ContextSpec",
    "Edge",
    "EdgeSemantics",
    "ExecutionBoundary",
    "FallbackNode",
    "GateNode",
    "KnownNativeNode",
    "LoopNode",
    "MapOverNode",
    "Match",
    "Modality",
    "ModelCandidate",
    "ModelSelectorNode",
    "Named",
    "NativeNode",
    "Node",
    "ParallelNode",
    "RaceNode",
    "RemoteAgentNode",
    "RetryConfig",
    "RouteNode",
    "ScalingConfig",
    "SequenceNode",
    "TapNode",
    "TimeoutNode",
    "TransferNode",
    "TransformNode",
    "TransportConfig",
    "Unset",
    "declares",
    "edges",
    "from_dict",
    "ir_hash",
    "predecessors",
    "resolve_names",
    "rewrite",
    "to_dict",
    "topological_order",
    "walk",
]


if not TYPE_CHECKING:  # a checker that sees it would take any name for a name of the package
    __getattr__ = lazy(__name__)
