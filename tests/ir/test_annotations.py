from __future__ import annotations

from dataclasses import fields

import pytest

from adk_fluent.ir import (
    AgentNode,
    Annotations,
    AuthConfig,
    ContentSpec,
    EdgeSemantics,
    ExecutionBoundary,
    Modality,
    SequenceNode,
)
from adk_fluent.ir.annotations import NO_ANNOTATIONS


def test_nothing_is_said_by_default() -> None:
    """A node without annotations says nothing, and all such nodes share one value."""
    assert AgentNode(name="x").annotations is NO_ANNOTATIONS
    assert Annotations() == NO_ANNOTATIONS
    assert {getattr(NO_ANNOTATIONS, field.name) for field in fields(NO_ANNOTATIONS)} == {None, ()}


@pytest.mark.parametrize(
    "annotations",
    [
        Annotations(visibility="internal"),
        Annotations(policy="filtered"),
        Annotations(edge=EdgeSemantics("chunked", chunk_size=20)),
        Annotations(content=ContentSpec(frozenset({Modality.IMAGE}))),
        Annotations(boundary=ExecutionBoundary(isolation="process")),
        Annotations(schema=dict),
    ],
)
def test_annotations_tell_nodes_apart(annotations: Annotations) -> None:
    """Annotations are part of a node's value: nodes with different ones are not equal."""
    node = AgentNode(name="x", annotations=annotations)
    assert node != AgentNode(name="x")
    assert node == AgentNode(name="x", annotations=annotations)
    assert hash(node) == hash(AgentNode(name="x", annotations=annotations))


def test_a_token_is_never_shown() -> None:
    """Printing the credentials of a remote agent shows their kind, not the token."""
    shown = repr(AuthConfig("api_key", "s3cret"))
    assert shown == "AuthConfig(type='api_key', token=***)"


def test_edge_semantics_of_a_sequence() -> None:
    """A sequence has one edge fewer than steps; an edge that was not described waits for the whole answer."""
    chunked = EdgeSemantics("chunked", chunk_size=20)
    steps = (
        AgentNode(name="a", annotations=Annotations(edge=chunked)),
        AgentNode(name="b"),
        AgentNode(name="c", annotations=Annotations(edge=chunked)),
    )
    assert SequenceNode(children=steps).edge_semantics == (chunked, EdgeSemantics("full"))
    assert SequenceNode(children=steps[:1]).edge_semantics == ()
    assert SequenceNode().edge_semantics == ()
