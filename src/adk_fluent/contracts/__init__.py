"""Checks of a pipeline before it runs: missing keys, lost answers, wrong types, unreachable steps and so on.

`checking.check_all` is the entry: it computes the facts (`analysis`), runs every check on them, and returns a
report. `checks` holds one function per rule, `findings` the wording that several rules share, `issues` one
class per kind of finding, and `refusals` the rules for which compiling raises an error, too. The package may
import `analysis`, `cost`, `middleware` and the layers below them, but no backend. Read `checking.check_all`
first, then `checks/loops.py` as an example of a check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.contracts.checking import check_all, check_contracts
    from adk_fluent.contracts.checks.artifacts import check_artifacts
    from adk_fluent.contracts.checks.boundaries import check_boundary_contracts
    from adk_fluent.contracts.checks.coherence import check_channel_coherence
    from adk_fluent.contracts.checks.context import check_context_contracts
    from adk_fluent.contracts.checks.cost import check_cost_contracts
    from adk_fluent.contracts.checks.described import check_descriptions
    from adk_fluent.contracts.checks.formatted import check_formatted_keys
    from adk_fluent.contracts.checks.gates import check_resumable
    from adk_fluent.contracts.checks.limits import check_token_limits
    from adk_fluent.contracts.checks.loops import check_loops
    from adk_fluent.contracts.checks.maps import check_maps
    from adk_fluent.contracts.checks.modality import check_modality_contracts
    from adk_fluent.contracts.checks.names import check_names
    from adk_fluent.contracts.checks.nesting import check_nesting
    from adk_fluent.contracts.checks.outputs import check_output_key_contracts
    from adk_fluent.contracts.checks.parallel import check_parallel_writers
    from adk_fluent.contracts.checks.pauses import check_pauses
    from adk_fluent.contracts.checks.reachability import check_reachability
    from adk_fluent.contracts.checks.reading import check_dataflow_contracts
    from adk_fluent.contracts.checks.remote import check_a2a_contracts
    from adk_fluent.contracts.checks.resources import check_resources
    from adk_fluent.contracts.checks.streaming import check_streaming_contracts
    from adk_fluent.contracts.checks.structure import check_structure
    from adk_fluent.contracts.checks.templates import check_template_contracts
    from adk_fluent.contracts.checks.tools import check_tool_contracts
    from adk_fluent.contracts.checks.types import check_type_contracts
    from adk_fluent.contracts.checks.unknown import check_unknown_functions
    from adk_fluent.contracts.checks.visible import check_visibility_contracts
    from adk_fluent.contracts.issues import (
        BoundaryTempKey,
        BoundaryType,
        BoundaryUncuttable,
        BoundaryUndeclared,
        BranchNotVisible,
        BudgetWithoutFallback,
        ChannelDuplication,
        ContextConflict,
        DataLoss,
        DeadState,
        DuplicateName,
        DuplicateTool,
        EmptyComposite,
        EndlessTransfer,
        FormattedKey,
        InvalidName,
        InvalidOption,
        LiteralPlaceholder,
        LoopRunsToLimit,
        MissingArtifact,
        MissingBudget,
        MissingResource,
        MixedOperators,
        ModalityLoss,
        ModalityMismatch,
        NestedTooDeep,
        NobodyVisible,
        NoInstruction,
        NotResumable,
        Overwritten,
        ParallelWriters,
        PauseTempKey,
        PlaceholderTypo,
        ReadBeforeWrite,
        RemoteInputMissing,
        RouteMissingKey,
        RouteWithoutOtherwise,
        SchemaViolation,
        ScopeMismatch,
        SharedCache,
        StreamingEdgeWaits,
        StreamingModelConflict,
        StreamingRouteConflict,
        StreamingSourceMissing,
        TokenLimit,
        ToolHistory,
        TypeMismatch,
        UndescribedTool,
        UnknownAccess,
        UnknownAgent,
        UnknownPrice,
        UnknownTool,
        UnmetConsumes,
        UnnamedTool,
        UnreachableBranch,
        UnreadItem,
        UnresolvedTemplateVar,
        Unsupported,
        UnusedResource,
    )
    from adk_fluent.contracts.registry import built_in_checks, register_checker, unregister_checker
    from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity

__all__ = [
    "BoundaryTempKey",
    "BoundaryType",
    "BoundaryUncuttable",
    "BoundaryUndeclared",
    "BranchNotVisible",
    "BudgetWithoutFallback",
    "ChannelDuplication",
    "ContextConflict",
    "ContractIssue",
    "ContractReport",
    "DataLoss",
    "DeadState",
    "DuplicateName",
    "DuplicateTool",
    "EmptyComposite",
    "EndlessTransfer",
    "FormattedKey",
    "InvalidName",
    "InvalidOption",
    "LiteralPlaceholder",
    "LoopRunsToLimit",
    "MissingArtifact",
    "MissingBudget",
    "MissingResource",
    "MixedOperators",
    "ModalityLoss",
    "ModalityMismatch",
    "NestedTooDeep",
    "NoInstruction",
    "NobodyVisible",
    "NotResumable",
    "Overwritten",
    "ParallelWriters",
    "PauseTempKey",
    "PlaceholderTypo",
    "ReadBeforeWrite",
    "RemoteInputMissing",
    "RouteMissingKey",
    "RouteWithoutOtherwise",
    "SchemaViolation",
    "ScopeMismatch",
    "Severity",
    "SharedCache",
    "StreamingEdgeWaits",
    "StreamingModelConflict",
    "StreamingRouteConflict",
    "StreamingSourceMissing",
    "TokenLimit",
    "ToolHistory",
    "TypeMismatch",
    "UndescribedTool",
    "UnknownAccess",
    "UnknownAgent",
    "UnknownPrice",
    "UnknownTool",
    "UnmetConsumes",
    "UnnamedTool",
    "UnreachableBranch",
    "UnreadItem",
    "UnresolvedTemplateVar",
    "Unsupported",
    "UnusedResource",
    "built_in_checks",
    "check_a2a_contracts",
    "check_all",
    "check_artifacts",
    "check_boundary_contracts",
    "check_channel_coherence",
    "check_context_contracts",
    "check_contracts",
    "check_cost_contracts",
    "check_dataflow_contracts",
    "check_descriptions",
    "check_formatted_keys",
    "check_loops",
    "check_maps",
    "check_modality_contracts",
    "check_names",
    "check_nesting",
    "check_output_key_contracts",
    "check_parallel_writers",
    "check_pauses",
    "check_reachability",
    "check_resources",
    "check_resumable",
    "check_streaming_contracts",
    "check_structure",
    "check_template_contracts",
    "check_token_limits",
    "check_tool_contracts",
    "check_type_contracts",
    "check_unknown_functions",
    "check_visibility_contracts",
    "register_checker",
    "unregister_checker",
]

__getattr__: Callable[[str], object] = lazy(__name__)
