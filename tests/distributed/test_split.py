"""`distributed.split`: where a pipeline is cut, what each part is, and what it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

import pytest
from google.genai import types

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, StateSchema, T, map_over, tap, transfer
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import Manifest, ScalingConfig, Segment, TransportConfig, split
from adk_fluent.errors import ArgumentError, BoundaryError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import walk
from adk_fluent.state import UserScoped
from adk_fluent.visibility import infer_visibility
from tests.sampling import every

clerk = Agent("clerk").instruct("Classify.").writes("intent")
heavy = Agent("heavy").instruct("Do {intent} for {user:tier?}.").writes("result").execution_boundary()
mail = Agent("mail").instruct("Tell {result}.").reads("result")


def names(pipeline: Expr[Any]) -> list[list[str]]:
    """The agents of each segment."""
    return [[node.name for node in walk(part.node) if node.speaks] for part in split(pipeline)]


def test_a_boundary_cuts_before_its_expression() -> None:
    """What stands before a boundary is one segment, it and all after it up to the next boundary another."""
    assert names(clerk >> heavy >> mail) == [["clerk"], ["heavy", "mail"]]
    assert names(clerk >> heavy >> mail.execution_boundary()) == [["clerk"], ["heavy"], ["mail"]]
    assert names(heavy >> mail) == [["heavy", "mail"]]
    assert names(clerk >> mail) == [["clerk", "mail"]]
    nested = Pipeline(Pipeline(clerk, heavy, name="inner"), mail, name="outer")
    assert names(nested) == [["clerk"], ["heavy", "mail"]]


def test_segments_know_their_place() -> None:
    """Each has a name of its own, that of its first step, and knows the one before and after."""
    parts = split(clerk >> heavy >> mail.execution_boundary())
    assert [(part.name, part.index, part.previous, part.next) for part in parts] == [
        ("clerk", 0, None, "heavy"),
        ("heavy", 1, "clerk", "mail"),
        ("mail", 2, "heavy", None),
    ]


def test_only_the_keys_that_are_read_come_in() -> None:
    """Inputs are the keys that a segment reads and may not have written itself; `temp:` keys never cross."""
    made = S.set(note="n", **{"temp:x": 1}) >> clerk
    first, second = split(made >> heavy >> S.set(result="r") >> mail)
    assert first.reads == ()
    assert first.writes == ("note", "intent")
    assert second.reads == ("intent", "user:tier")
    maybe = Route("intent").eq("a", Agent("a").writes("x")) >> Agent("b").instruct("{x?}")
    (_, third) = split(clerk >> maybe.execution_boundary())
    assert third.reads == ("intent", "x")


def test_the_keys_that_an_operation_may_look_at_come_in() -> None:
    """What stands inside `S.when` and `S.branch` is read too, and what an operation removes is looked up."""
    read = S.require("note")
    for step in (S.when("intent", read), S.branch("intent", a=read), S.set(x=1) + S.drop("note")):
        _, second = split(clerk >> step.execution_boundary())
        assert second.reads is not None
        assert "note" in second.reads


def test_all_keys_come_in_where_nobody_knows_which() -> None:
    """A step that does not say what it reads, or removes all keys but a few, gets the whole state."""

    def unknown(state: Mapping[str, Any]) -> dict[str, int]:
        return {"count": len(state)}

    for step in (S.compute(count=unknown), S.pick("intent")):
        _, second = split(clerk >> step.execution_boundary())
        assert second.reads is None
        assert second.manifest.inputs is None


def test_only_the_conversation_that_is_shown_comes_in() -> None:
    """Who is shown nothing of earlier agents gets none of it; who is shown one agent's words gets those."""
    writer = Agent("writer").instruct("Write.")

    def heard(listener: Agent[Any]) -> Segment:
        return split(clerk >> writer >> listener.execution_boundary())[1]

    everything = heard(Agent("a").instruct("Go."))
    assert everything.hears.authors == {"clerk", "writer"}
    assert everything.hears.user
    assert heard(Agent("a").context(C.from_agents("writer"))).hears.authors == {"writer"}
    nothing = heard(Agent("a").context(C.none()))
    assert not nothing.hears.authors
    assert not nothing.hears.earlier
    assert not nothing.hears.user
    user_only = heard(Agent("a").context(C.user_only()))
    assert not user_only.hears.authors
    assert user_only.hears.user


def test_who_sees_an_agent_is_the_same_in_its_segment() -> None:
    """An agent that is last in its segment, but not in the pipeline, stays internal."""
    whole = infer_visibility(clerk >> heavy >> mail)
    for part in split(clerk >> heavy >> mail.execution_boundary()):
        for name, seen in infer_visibility(part.node).items():
            if name in ("clerk", "heavy", "mail"):
                assert seen == whole[name]


def test_a_segment_is_an_app_of_its_own() -> None:
    """Each segment is a native app that can be resumed, with a queue of its own."""
    parts = split(clerk >> heavy, ExecutionConfig(app_name="shop"))
    assert [part.app.name for part in parts] == ["shop", "shop"]
    assert [part.queue for part in parts] == ["shop.clerk", "shop.heavy"]
    assert all(part.app.resumability_config for part in parts)


class Order(StateSchema):
    """Typed state."""

    intent: str
    tier: Annotated[str, UserScoped] = "free"


def test_a_manifest_is_data() -> None:
    """It names inputs with their schema, outputs, queue, limits and the start command, and is read again."""
    far = TransportConfig(endpoint="pubsub://projects/my-proj/topics/heavy")
    placed = heavy.execution_boundary(transport=far, scaling=ScalingConfig(max_instances=20))
    _, second = split((clerk >> placed).schema(Order))
    manifest = second.manifest
    data = manifest.to_dict()
    assert data["inputs"][0] == {"key": "intent", "schema": {"type": "string"}, "field": "Order.intent"}
    assert data["inputs"][1]["field"] == "Order.tier"
    assert [port["key"] for port in data["outputs"]] == ["result"]
    assert (data["queue"], data["max_instances"]) == ("heavy", 20)
    assert data["command"] == ["adk-fluent", "worker", "TARGET", "--segment", "heavy"]
    assert Manifest.from_dict({**data, "added_later": 1}) == manifest


def test_a_container_is_described() -> None:
    """The Dockerfile starts the worker's command as a plain process of a user without rights."""
    far = TransportConfig(endpoint="redis://queue:6379/0/heavy")
    _, second = split(clerk >> heavy.execution_boundary(transport=far, isolation="container"))
    lines = second.manifest.dockerfile("shop:pipeline").splitlines()
    steps = [line.partition(" ")[0] for line in lines]
    assert steps == ["FROM", "LABEL", "WORKDIR", "COPY", "RUN", "COPY", "RUN", "USER", "CMD"]
    assert not lines[0].endswith((":latest", ":"))
    assert ":" in lines[0]
    assert lines[steps.index("USER")] != "USER root"
    command = json.loads(lines[-1].removeprefix("CMD "))
    assert command == ["adk-fluent", "worker", "shop:pipeline", "--segment", "heavy"]
    assert tuple(command) == second.manifest.command("shop:pipeline")


def early(state: Mapping[str, Any]) -> bool:
    """A condition."""
    return False


def note(callback_context: Any) -> types.Content | None:
    """A callback."""
    return None


CANNOT: list[tuple[str, Callable[[], Expr[Any]], str]] = [
    ("loop", lambda: Loop(clerk >> heavy, max_iterations=2), "inside the loop 'loop'"),
    ("branch", lambda: FanOut(clerk, Agent("x") >> heavy), "inside the parallel 'parallel'"),
    ("route", lambda: clerk >> Route("intent").eq("a", heavy), "inside the route 'route'"),
    ("map", lambda: clerk >> map_over("items", heavy), "inside the map 'map'"),
    ("fallback", lambda: clerk // heavy, "inside the fallback 'fallback'"),
    ("timeout", lambda: (clerk >> heavy).timeout(5), "inside the timeout 'timeout'"),
    ("sub-agent", lambda: Agent("boss").sub_agents(heavy), "inside the agent 'boss'"),
    ("pieces", lambda: clerk.stream_to("token") >> tap(print).execution_boundary(), "is streamed"),
    (
        "transfer",
        lambda: clerk >> transfer("mail", condition=early) >> heavy >> mail,
        "the transfer 'to_mail'",
    ),
    ("callback", lambda: Pipeline(clerk, heavy).before_agent(note), "before_agent_callback would then run"),
]


@pytest.mark.parametrize("case", every(4, CANNOT))
def test_what_cannot_be_cut_is_named(case: tuple[str, Callable[[], Expr[Any]], str]) -> None:
    """A boundary inside what runs as a whole is refused: the message names it, and what can be cut."""
    _, make, what = case
    with pytest.raises(BoundaryError, match=what) as caught:
        split(make())
    assert str(caught.value).startswith("the execution boundary of ")
    assert "Put " in str(caught.value) or "Let " in str(caught.value)


@pytest.mark.parametrize(
    "endpoint",
    ["redis://host/heavy", "nats://host/heavy", "amqp://host/heavy", "pubsub://projects/p/topics/heavy"],
)
def test_a_start_command_says_where_the_engine_is(endpoint: str) -> None:
    """One command starts a worker, whatever the broker, in the container as on a machine."""
    heavy = Agent("heavy").execution_boundary(transport=TransportConfig(endpoint=endpoint))
    manifest = split(Agent("clerk") >> heavy)[1].manifest
    command = "adk-fluent worker shop:pipeline --segment heavy"
    assert " ".join(manifest.command("shop:pipeline")) == command
    assert " ".join(manifest.command("shop:pipeline", address="t:7233")) == f"{command} --address t:7233"
    assert '"--address", "t:7233"]' in manifest.dockerfile("shop:pipeline", address="t:7233")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Agent("a").execution_boundary(transport=cast(Any, "redis://x")), "takes TransportConfig"),
        (lambda: Agent("a").execution_boundary(scaling=cast(Any, 3)), "takes ScalingConfig"),
        (lambda: TransportConfig(endpoint=cast(Any, 5)), "takes a URL, not 5"),
        (lambda: TransportConfig(type=cast(Any, "pigeon")), "type='pigeon'.: the only type is 'queue'"),
        (lambda: TransportConfig(endpoint="a wall"), "queues are at redis://"),
        (lambda: TransportConfig(endpoint="kafka://host/heavy"), "queues are at redis://"),
        (lambda: TransportConfig(endpoint="redis://host:x/heavy"), "names a server and a queue"),
        (lambda: TransportConfig(endpoint="redis://host"), "names a server and a queue"),
        (lambda: TransportConfig(endpoint="nats://host/a queue"), "names a server and a queue"),
        (lambda: TransportConfig(endpoint="pubsub://heavy"), "pubsub://projects/PROJECT/topics/TOPIC"),
        (lambda: ScalingConfig(min_instances=-1), "takes whole numbers"),
        (lambda: ScalingConfig(max_instances=0), "takes whole numbers"),
        (lambda: ScalingConfig(max_instances=cast(Any, "2")), "takes whole numbers"),
        (lambda: ScalingConfig(3, 2), "the least may not be more than the most"),
    ],
)
def test_what_a_boundary_is_told_is_checked(wrong: Callable[[], object], said: str) -> None:
    """Where it is written, not where a worker starts."""
    with pytest.raises(ArgumentError, match=said):
        wrong()


def test_an_endpoint_that_is_refused_keeps_its_password() -> None:
    """The message shows the server and no secret."""
    with pytest.raises(ArgumentError) as caught:
        TransportConfig(endpoint="redis://ann:tulip@host")
    assert "tulip" not in str(caught.value)


def test_a_boundary_inside_a_tool_is_named() -> None:
    """It cuts nothing, in a wrapped tool neither, which the check says beside what could be cut."""
    heavy = T.retry(T.agent(Agent("heavy").execution_boundary()))
    asking = Agent("clerk").instruct("File.") >> Agent("asks").instruct("Ask.").tools(heavy)
    (issue,) = asking.check().issues
    assert issue.code == "boundary-uncuttable"
    assert issue.message.startswith("the execution boundary of 'heavy' stands inside a tool of asks")
