"""The checks that `check_all` runs, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from adk_fluent.analysis.facts import Facts
from adk_fluent.contracts.checks.boundaries import check_boundary_contracts
from adk_fluent.contracts.checks.coherence import check_channel_coherence
from adk_fluent.contracts.checks.context import check_context_contracts
from adk_fluent.contracts.checks.cost import check_cost_contracts
from adk_fluent.contracts.checks.gates import check_resumable
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
from adk_fluent.contracts.checks.streaming import check_streaming_contracts
from adk_fluent.contracts.checks.structure import check_structure
from adk_fluent.contracts.checks.templates import check_template_contracts
from adk_fluent.contracts.checks.tools import check_tool_contracts
from adk_fluent.contracts.checks.types import check_type_contracts
from adk_fluent.contracts.checks.unknown import check_unknown_functions
from adk_fluent.contracts.checks.visible import check_visibility_contracts
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node

Checker = Callable[[Node], Iterable[ContractIssue]]

CHECKERS: Final[tuple[Callable[[object], list[ContractIssue]], ...]] = (
    check_nesting,
    check_names,
    check_structure,
    check_dataflow_contracts,
    check_type_contracts,
    check_context_contracts,
    check_template_contracts,
    check_output_key_contracts,
    check_channel_coherence,
    check_streaming_contracts,
    check_modality_contracts,
    check_boundary_contracts,
    check_a2a_contracts,
    check_cost_contracts,
    check_visibility_contracts,
    check_reachability,
    check_parallel_writers,
    check_loops,
    check_maps,
    check_tool_contracts,
    check_resumable,
    check_pauses,
    check_unknown_functions,
)
"""The built-in checks; each takes anything that can be checked, or facts that are known already."""

_registered: list[Checker] = []


def register_checker(fn: Checker) -> Checker:
    """Add a check of your own to every `check_all`, and to what building logs; also a decorator.

    Args:
        fn: takes the root node and gives `ContractIssue`s. Registering one twice does nothing.

    Raises:
        ArgumentError: it cannot be called.

    Example:
        >>> from adk_fluent import Agent
        >>> from adk_fluent.contracts import ContractIssue, Severity, check_all
        >>> from adk_fluent.ir import walk
        >>> def no_test_agents(root):
        ...     for node in walk(root):
        ...         if node.name.startswith("test_"):
        ...             yield ContractIssue(
        ...                 severity=Severity.WARN, code="test-agent", agent=node.name,
        ...                 message=f"{node.name} is a test agent",
        ...             )
        >>> _ = register_checker(no_test_agents)
        >>> print(check_all(Agent("test_a")))
        ⚠ test_a is a test agent: WARN
        >>> unregister_checker(no_test_agents)
    """
    if not callable(fn):
        raise ArgumentError(f"register_checker() takes a function of the root node, not {fn!r:.40}.")
    if fn not in _registered:
        _registered.append(fn)
    return fn


def unregister_checker(fn: Checker) -> None:
    """Take a check of your own out again; one that is not registered is no error."""
    if fn in _registered:
        _registered.remove(fn)


def run_checkers(facts: Facts) -> list[ContractIssue]:
    """What all checks find."""
    found = [issue for check in CHECKERS for issue in check(facts)]
    for check in tuple(_registered):
        found += check(facts.root)
    return found
