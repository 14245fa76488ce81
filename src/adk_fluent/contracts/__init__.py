"""Checks of a pipeline before it runs: missing keys, lost answers, wrong types, unreachable steps and so on.

`check.check_all` is the entry: it computes the facts (`analysis`), runs every check on them, and returns a
report. `checks` holds one module per topic, `findings` and `reasons` the findings that several checks make
and their wording, `issues` one class per kind of finding, and `refusals` and `tree_rules` the rules for which
compiling raises an error, too. The package may import `analysis`, `cost`, `middleware` and the layers below
them, but no backend. Read `check.check_all` first, then `checks/control_flow.py` as an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.contracts.check import check_all, check_contracts
    from adk_fluent.contracts.checks.answer_flow import (
        check_channel_coherence,
        check_modality_contracts,
        check_visibility_contracts,
    )
    from adk_fluent.contracts.checks.artifacts import check_artifacts
    from adk_fluent.contracts.checks.boundaries import check_a2a_contracts, check_boundary_contracts
    from adk_fluent.contracts.checks.control_flow import check_loops, check_maps, check_reachability
    from adk_fluent.contracts.checks.cost import check_cost_contracts, check_token_limits
    from adk_fluent.contracts.checks.resources import check_resources
    from adk_fluent.contracts.checks.state_keys import (
        check_dataflow_contracts,
        check_output_key_contracts,
        check_parallel_writers,
        check_pauses,
        check_unknown_functions,
    )
    from adk_fluent.contracts.checks.stream_edges import check_streaming_contracts
    from adk_fluent.contracts.checks.structure import (
        check_context_contracts,
        check_names,
        check_nesting,
        check_resumable,
        check_structure,
    )
    from adk_fluent.contracts.checks.templates import check_formatted_keys, check_template_contracts
    from adk_fluent.contracts.checks.tools import check_descriptions, check_tool_contracts
    from adk_fluent.contracts.checks.types import check_type_contracts
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
