"""Declarations of expressions: stored, checked at once, and refused if they cannot run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, RemoteAgent
from adk_fluent.content import ContentSpec, Modality
from adk_fluent.cost import ModelCandidate
from adk_fluent.distributed import ExecutionBoundary, ScalingConfig, TransportConfig
from adk_fluent.errors import ArgumentError, InvalidNameError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AuthConfig, ModelSelectorNode, RetryConfig, from_dict, to_dict
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.streaming import EdgeSemantics

SMALL = ModelCandidate("small", 0.1, 0.2)


class Order(BaseModel):
    order_id: str


class Receipt(BaseModel):
    total: float


def _select(*candidates: ModelCandidate, quality_key: str | None = None) -> Agent[str]:
    return Agent("a").model_select("cost_optimized", candidates=candidates, quality_key=quality_key)


def _candidate(**options: Any) -> Agent[str]:
    return _select(ModelCandidate("m", **options))


def _chosen(**options: Any) -> Agent[str]:
    return Agent("a").model_select("cost_optimized", candidates=[SMALL], **options)


DECLARED: list[Expr[Any]] = [
    Agent("a").show(),
    Agent("a").hide(),
    (Agent("a") >> Agent("b")).filtered(),
    Agent("a").stream_to("chunked", chunk_size=5, backpressure=True),
    Agent("a").execution_boundary(
        serialization="arrow",
        transport=TransportConfig("queue", "nats://host/x"),
        isolation="process",
        scaling=ScalingConfig(max_instances=20),
    ),
    Agent("a").accepts(Modality.IMAGE, Modality.TEXT).produces_modality(Modality.CODE),
    Agent("a").model_select("budget_bounded", candidates=[SMALL], budget_key="left", fallback_model="tiny"),
    FanOut(Agent("a"), Agent("b"), merge="interleave"),
    RemoteAgent("r", endpoint="https://x.example/a2a", capabilities=("pay",), timeout=5, retry=RetryConfig()),
    Agent("a").strict(),
]


@pytest.mark.parametrize("expression", DECLARED, ids=repr)
def test_a_declaration_is_part_of_the_value(expression: Expr[Any]) -> None:
    """A declaration makes another expression, which compares by it and survives being stored as JSON."""
    node = expression.to_ir()
    plain = node.replace(annotations=NO_ANNOTATIONS)
    assert (plain == node) is (node.annotations == NO_ANNOTATIONS)
    assert from_dict(json.loads(json.dumps(to_dict(node)))) == node


def test_edges_and_boundaries_are_annotations() -> None:
    """`.stream_to` and `.execution_boundary` keep what they were told."""
    assert Agent("a").stream_to("token").node.annotations.edge == EdgeSemantics(buffering="token")
    scaling = ScalingConfig(max_instances=20)
    boundary = Agent("a").execution_boundary(scaling=scaling).node.annotations.boundary
    assert boundary == ExecutionBoundary(scaling=scaling)


def test_models_and_modalities_are_separate() -> None:
    """`.accepts(Model)` is the input schema, `.accepts(Modality, ...)` the kinds of content; they add up."""
    agent = Agent("a").accepts(Order).accepts(Modality.PDF).produces_modality(Modality.TEXT, Modality.CODE)
    assert agent.node.input_schema is Order
    assert agent.node.annotations.content == ContentSpec(
        input_modalities=frozenset({Modality.PDF}),
        output_modalities=frozenset({Modality.TEXT, Modality.CODE}),
    )


def test_the_model_selector_is_held_by_the_agent() -> None:
    """`.model_select` keeps strategy, candidates and keys in a node that the agent holds."""
    chosen = Agent("a").model_select("adaptive", candidates=[SMALL], quality_key="q", quality_threshold=0.5)
    expected = ModelSelectorNode(
        strategy="adaptive", candidates=(SMALL,), quality_key="q", quality_threshold=0.5
    )
    assert chosen.node.selector == expected
    assert chosen.node.reads_keys == {"q"}


def test_a_remote_agent_keeps_its_arguments() -> None:
    """Endpoint, limits, schemas, fallback, and the keys it is sent and writes are fields of its node."""
    remote = RemoteAgent(
        "pay",
        endpoint="https://x.example",
        input_schema=Order,
        auth=AuthConfig(token="t"),
        fallback=Agent("f"),
    )
    node = (remote.reads("order_id").reads("user:id").outputs("receipt") @ Receipt).node
    assert (node.endpoint, node.input_schema, node.timeout_seconds) == ("https://x.example", Order, 30.0)
    assert (node.declared_reads, node.output_key, node.output_schema) == (
        ("order_id", "user:id"),
        "receipt",
        Receipt,
    )
    assert node.fallback == Agent("f").node
    assert "t'" not in repr(node.auth)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Agent("a").stream_to("drops"), "'full', 'chunked', 'token', not 'drops'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").stream_to("token", chunk_size=3), "goes with buffering='chunked'"),
        (lambda: Agent("a").stream_to("chunked", chunk_size=0), "positive number of tokens, not 0"),
        (lambda: Agent("a").execution_boundary(serialization="xml"), "not 'xml'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").execution_boundary(isolation="vm"), "not 'vm'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").accepts(), "one pydantic model, or one or more Modality values"),
        (lambda: Agent("a").accepts(Order, Modality.TEXT), "one pydantic model, or"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").produces_modality(), "one or more Modality values"),
        (lambda: Agent("a").produces_modality("text"), "one or more Modality values"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").model_select("cheap", candidates=[SMALL]), "not 'cheap'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").model_select("adaptive", candidates=[]), "one or more ModelCandidate values"),
        (lambda: Agent("a").model_select("adaptive", candidates=["m"]), "ModelCandidate values"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Agent("a").model_select("adaptive", candidates=[SMALL]), "needs quality_key="),
        (lambda: _select(SMALL, quality_key="q"), "quality_threshold=, below which"),
        (lambda: _select(SMALL, ModelCandidate("small")), "names 'small' twice"),
        (
            lambda: _select(ModelCandidate("m", -1, 2)),
            "cost_per_1k_input=) takes an amount",
        ),
        (lambda: _select(ModelCandidate("m", 1, "free")), "cost_per_1k_output=) takes an amount"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: _select(ModelCandidate("m", 1)), "give both cost_per_1k_input and cost_per_1k_output"),
        (
            lambda: _select(ModelCandidate("m", 1, 2, max_tokens=0)),
            "max_tokens=) takes a positive",
        ),
        (lambda: _select(ModelCandidate(" ")), "name of a model, not ' '"),
        (lambda: _candidate(quality_tier="best"), "quality_tier=) takes a number, not 'best'"),
        (lambda: _candidate(condition=5), "condition=) takes a function, not 5"),
        (lambda: _chosen(budget_key=" "), "budget_key=) takes a state key as text"),
        (lambda: _chosen(fallback_model=""), "fallback_model=) takes the name of a model, not ''"),
        (lambda: _chosen(quality_key="q", quality_threshold="low"), "quality_threshold=) takes a number"),
        (lambda: _chosen(quality_key=3, quality_threshold=0.5), "quality_key=) takes a state key as text"),
        (lambda: FanOut(Agent("a"), merge="first"), "not 'first'"),  # pyright: ignore[reportArgumentType, reportCallIssue]  # the point
        (lambda: RemoteAgent("r", endpoint="x.example"), "http or https URL, not 'x.example'"),
        (lambda: RemoteAgent("r", endpoint="http://x", timeout=0), "takes a positive number, not 0"),
        (lambda: RemoteAgent("r", endpoint="http://x", fallback="f"), "takes an expression"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: RemoteAgent("r", endpoint="http://x").reads(""), "state key"),
    ],
)
def test_wrong_declarations_are_refused_at_once(make: Any, message: str) -> None:
    """A value that no declaration takes is refused where it is written, in a line that says what is taken."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_remote_agent_needs_a_name_that_adk_takes() -> None:
    """The name of a remote agent is checked like that of an agent."""
    with pytest.raises(InvalidNameError):
        RemoteAgent("pay-now", endpoint="http://x")


def test_limits_of_tokens_are_part_of_the_content() -> None:
    """`.accepts(max_input_tokens=)` and `.produces_modality(max_output_tokens=)` add up with the kinds."""
    agent = Agent("a").accepts(max_input_tokens=100).accepts(Modality.IMAGE).accepts(Order)
    agent = agent.produces_modality(Modality.CODE, max_output_tokens=7)
    assert agent.node.annotations.content == ContentSpec(
        frozenset({Modality.IMAGE}), frozenset({Modality.CODE}), max_input_tokens=100, max_output_tokens=7
    )
    assert agent.node.input_schema is Order
    assert Agent("a").produces_modality(max_output_tokens=7).accepts(
        Modality.TEXT, max_input_tokens=9
    ).node.annotations.content == ContentSpec(max_input_tokens=9, max_output_tokens=7)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "many"])
def test_a_limit_is_a_positive_whole_number(limit: Any) -> None:
    """Anything else is refused, saying where."""
    with pytest.raises(ArgumentError, match=r"accepts\(max_input_tokens=\) takes a positive number"):
        Agent("a").accepts(max_input_tokens=limit)
    with pytest.raises(ArgumentError, match=r"max_output_tokens=\) takes a positive number of tokens"):
        Agent("a").produces_modality(max_output_tokens=limit)
