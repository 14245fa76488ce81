"""Checks of a pipeline before it runs: what each agent will find in state and see of the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from adk_fluent.contracts.checking import check_all, check_contracts
    from adk_fluent.contracts.checks.boundaries import check_boundary_contracts
    from adk_fluent.contracts.checks.coherence import check_channel_coherence
    from adk_fluent.contracts.checks.context import check_context_contracts
    from adk_fluent.contracts.checks.cost import check_cost_contracts
    from adk_fluent.contracts.checks.gates import check_resumable
    from adk_fluent.contracts.checks.loops import check_loops
    from adk_fluent.contracts.checks.modality import check_modality_contracts
    from adk_fluent.contracts.checks.names import check_names
    from adk_fluent.contracts.checks.nesting import check_nesting
    from adk_fluent.contracts.checks.outputs import check_output_key_contracts
    from adk_fluent.contracts.checks.parallel import check_parallel_writers
    from adk_fluent.contracts.checks.pauses import check_pauses
    from adk_fluent.contracts.checks.reachability import check_reachability
    from adk_fluent.contracts.checks.reading import check_dataflow_contracts
    from adk_fluent.contracts.checks.remote import check_a2a_contracts
    from adk_fluent.contracts.checks.streaming import check_streaming_contracts
    from adk_fluent.contracts.checks.templates import check_template_contracts
    from adk_fluent.contracts.checks.types import check_type_contracts
    from adk_fluent.contracts.checks.unknown import check_unknown_functions
    from adk_fluent.contracts.checks.visible import check_visibility_contracts
    from adk_fluent.contracts.issues import (
        BoundaryTempKey,
        BoundaryType,
        BranchNotVisible,
        BudgetWithoutFallback,
        ChannelDuplication,
        DataLoss,
        DeadState,
        DuplicateName,
        LoopRunsToLimit,
        MissingBudget,
        ModalityLoss,
        ModalityMismatch,
        NestedTooDeep,
        NobodyVisible,
        NotResumable,
        ParallelWriters,
        PauseTempKey,
        PlaceholderTypo,
        ReadBeforeWrite,
        RemoteInputMissing,
        RouteMissingKey,
        RouteWithoutOtherwise,
        SchemaViolation,
        ScopeMismatch,
        StreamingModelConflict,
        StreamingRouteConflict,
        TypeMismatch,
        UnknownAccess,
        UnknownAgent,
        UnmetConsumes,
        UnreachableBranch,
        UnresolvedTemplateVar,
    )
    from adk_fluent.contracts.registry import CHECKERS, register_checker, unregister_checker
    from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity

_HOMES = {
    "CHECKERS": "registry",
    "BoundaryTempKey": "issues",
    "BoundaryType": "issues",
    "BranchNotVisible": "issues",
    "BudgetWithoutFallback": "issues",
    "ChannelDuplication": "issues",
    "ContractIssue": "report",
    "ContractReport": "report",
    "DataLoss": "issues",
    "DeadState": "issues",
    "DuplicateName": "issues",
    "LoopRunsToLimit": "issues",
    "MissingBudget": "issues",
    "ModalityLoss": "issues",
    "ModalityMismatch": "issues",
    "NestedTooDeep": "issues",
    "NobodyVisible": "issues",
    "NotResumable": "issues",
    "ParallelWriters": "issues",
    "PauseTempKey": "issues",
    "PlaceholderTypo": "issues",
    "ReadBeforeWrite": "issues",
    "RemoteInputMissing": "issues",
    "RouteMissingKey": "issues",
    "RouteWithoutOtherwise": "issues",
    "SchemaViolation": "issues",
    "ScopeMismatch": "issues",
    "Severity": "report",
    "StreamingModelConflict": "issues",
    "StreamingRouteConflict": "issues",
    "TypeMismatch": "issues",
    "UnknownAccess": "issues",
    "UnknownAgent": "issues",
    "UnmetConsumes": "issues",
    "UnreachableBranch": "issues",
    "UnresolvedTemplateVar": "issues",
    "check_a2a_contracts": "checks.remote",
    "check_all": "checking",
    "check_boundary_contracts": "checks.boundaries",
    "check_channel_coherence": "checks.coherence",
    "check_context_contracts": "checks.context",
    "check_contracts": "checking",
    "check_cost_contracts": "checks.cost",
    "check_dataflow_contracts": "checks.reading",
    "check_loops": "checks.loops",
    "check_modality_contracts": "checks.modality",
    "check_names": "checks.names",
    "check_nesting": "checks.nesting",
    "check_output_key_contracts": "checks.outputs",
    "check_parallel_writers": "checks.parallel",
    "check_pauses": "checks.pauses",
    "check_reachability": "checks.reachability",
    "check_resumable": "checks.gates",
    "check_streaming_contracts": "checks.streaming",
    "check_template_contracts": "checks.templates",
    "check_type_contracts": "checks.types",
    "check_unknown_functions": "checks.unknown",
    "check_visibility_contracts": "checks.visible",
    "register_checker": "registry",
    "unregister_checker": "registry",
}

__all__ = [
    "CHECKERS",
    "BoundaryTempKey",
    "BoundaryType",
    "BranchNotVisible",
    "BudgetWithoutFallback",
    "ChannelDuplication",
    "ContractIssue",
    "ContractReport",
    "DataLoss",
    "DeadState",
    "DuplicateName",
    "LoopRunsToLimit",
    "MissingBudget",
    "ModalityLoss",
    "ModalityMismatch",
    "NestedTooDeep",
    "NobodyVisible",
    "NotResumable",
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
    "StreamingModelConflict",
    "StreamingRouteConflict",
    "TypeMismatch",
    "UnknownAccess",
    "UnknownAgent",
    "UnmetConsumes",
    "UnreachableBranch",
    "UnresolvedTemplateVar",
    "check_a2a_contracts",
    "check_all",
    "check_boundary_contracts",
    "check_channel_coherence",
    "check_context_contracts",
    "check_contracts",
    "check_cost_contracts",
    "check_dataflow_contracts",
    "check_loops",
    "check_modality_contracts",
    "check_names",
    "check_nesting",
    "check_output_key_contracts",
    "check_parallel_writers",
    "check_pauses",
    "check_reachability",
    "check_resumable",
    "check_streaming_contracts",
    "check_template_contracts",
    "check_type_contracts",
    "check_unknown_functions",
    "check_visibility_contracts",
    "register_checker",
    "unregister_checker",
]

__getattr__ = lazy(__name__, _HOMES)
