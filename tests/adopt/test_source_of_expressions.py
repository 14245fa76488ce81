"""Any expression as source: what is written, imported, is the same tree."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, C, P, RemoteAgent, Route, S, StateSchema, T, gate, map_over, tap, until
from adk_fluent.adopt import to_source
from adk_fluent.adopt.source import written
from adk_fluent.content import Modality
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AuthConfig, Match, ModelSelectorNode, ScalingConfig, TransportConfig
from adk_fluent.ir.functions import import_path
from adk_fluent.middleware import Middleware
from tests import limits, samples
from tests.context.every import SPECS
from tests.properties.strategies import EXPRESSIONS
from tests.sampling import examples
from tests.tools import every as tools

AnyExpr = Expr[Any]
BOX = T.toolset(tools.Box())
QUIET = Middleware()
LIMIT = 100
LARGE = (
    Agent("a")
    >> gate(lambda state: state["total"] > LIMIT and not state.get("done"))
    >> S.compute(n=lambda state: len(state))
)


class Desk(StateSchema):
    """What a desk keeps."""

    topic: str
    tier: str | None = None
    count: int = 0


def made(source: str) -> Any:
    """The expression that the source defines, which is imported, but not built."""
    names: dict[str, Any] = {}
    exec(compile(source.replace("root_agent = pipeline.build()\n", ""), "written.py", "exec"), names)  # ours
    return names["pipeline"].node


def the_same(expression: object) -> str:
    """Its source, which says the same."""
    source = to_source(expression)
    assert made(source) == getattr(expression, "node", expression), source
    return source


def test_a_node_that_is_no_step_is_refused_by_name() -> None:
    """A model selector stands in an agent only, and the error says so."""
    with pytest.raises(ArgumentError, match=r"cannot write 'chooser', a model_selector node"):
        to_source(ModelSelectorNode(name="chooser"))


@pytest.mark.parametrize("name", samples.EXPRESSIONS)
def test_every_kind_of_expression(name: str) -> None:
    """One for each way of making one."""
    the_same(samples.EXPRESSIONS[name])


@settings(max_examples=examples(60), deadline=None)
@given(EXPRESSIONS)
def test_any_expression(expression: AnyExpr) -> None:
    """However it is put together."""
    the_same(expression)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_every_context(spec: Any) -> None:
    """`C`, and what of `A` stands in its place."""
    the_same(Agent("a").context(spec))


@pytest.mark.parametrize("name", [name for name in tools.EVERY if name != "toolset"])
def test_every_tool(name: str) -> None:
    """`T`."""
    the_same(Agent("a").tools(tools.EVERY[name]))


PROMPTS = [
    P.role("You.") + P.task("Do {this}.") + P.section("Tone", "Warm.") + P.constraint("a", "b"),
    P.from_state("a", "user:b") + P.template("{x}\n{y}\n{z}\n"),
    P.when("vip", P.task("Hurry.")) + P.when(samples.is_done, P.role("r") + P.task("t")),
    (P.role("r") + P.task("t")) | P.reorder("task"),
    P.scaffolded(P.scaffolded(P.task("t"), preamble="A"), preamble="0", postamble="9"),
    P.versioned(P.task("t") | P.compress(max_tokens=9), tag="v2") + P.task("u"),
    (P.role("r") + P.task("t")) | P.adapt(audience="children", model="m"),
    P.task("t") | P.compress() | P.adapt(audience="all"),
]


@pytest.mark.parametrize("prompt", PROMPTS, ids=repr)
def test_every_prompt(prompt: Any) -> None:
    """`P`."""
    the_same(Agent("a").instruct(prompt))


SAID: dict[str, AnyExpr] = {
    "who sees it": (Agent("a").show() >> Agent("b").hide()).filtered(),
    "how it travels": Agent("a").stream_to("chunked", chunk_size=5, backpressure=True) >> Agent("b"),
    "kinds of content": Agent("a").accepts(Modality.IMAGE, Modality.TEXT, max_input_tokens=9),
    "what it gives": Agent("a").produces_modality(Modality.AUDIO, max_output_tokens=9),
    "a boundary": Agent("a").execution_boundary(
        isolation="process", transport=TransportConfig(endpoint="redis://host/x"), scaling=ScalingConfig(1, 2)
    ),
    "a schema": (Agent("a") >> Agent("b")).schema(Desk).strict(),
    "fields that it reads": Agent("a").reads(Desk.topic, Desk.tier),
    "fields beside the conversation": Agent("a").reads(Desk.topic, keep_history=True),
    "fields beside another context": Agent("a").context(C.window(3)).reads(Desk.topic),
    "a field that it writes": Agent("a").writes(Desk.topic),
    "fields that it writes": Agent("a").writes(Desk.topic, Desk.count),
    "a route on a field": Route(Desk.topic).eq("x", Agent("a")),
    "a comparison of a field": gate(Match("count", "gt", 3), message="Go on?") >> Agent("a"),
    "a name that Python has": Agent("list").returns(list[samples.Invoice]) >> Agent("gate").tap(samples.look),
    "a type of several": Agent("a").returns(samples.Invoice | None),
    "one agent twice": Agent("a") >> Agent("b") >> Agent("a"),
    "one agent inside two": (Agent("a") | Agent("b")) >> (Agent("a") // Agent("c")).timeout(3),
    "named steps": (S.set(x=1).named("begin") >> Agent("a") // Agent("b")).named("whole"),
    "what is injected": Agent("a").tool(samples.add).inject(prices={"tea": 3}),
    "scoped keys": S.set(**{"user:name": "x", "y": 2}) >> map_over("items", Agent("a") >> tap(samples.look)),
    "a function that is repeated": (Agent("a") >> samples.count_words) * until(samples.is_done, max=3),
    "a model of pydantic": S.set(invoice=samples.Invoice(number=3)) >> Agent("a"),
    "numbers without end": S.set(best=float("inf"), worst=float("-inf")) >> Agent("a"),
    "a remote agent": RemoteAgent("far", endpoint="https://x.example/a2a", timeout=3).reads("a").writes("b"),
}


@pytest.mark.parametrize("name", SAID)
def test_everything_that_may_be_said(name: str) -> None:
    """What is said beside the structure."""
    the_same(SAID[name])


def test_it_reads_as_people_write_it() -> None:
    """Operators join what has no name; steps stand in their places, agents in variables."""
    pipeline = (
        S.default(tier="silver")
        >> (Agent("web").writes("found") | Agent("papers"))
        >> Route("found").contains("x", Agent("deep") // Agent("quick")).otherwise(Agent("none"))
    )
    assert the_same(pipeline) == (
        "from adk_fluent import Agent, Route, S\n\n"
        'web = Agent("web").writes("found")\n'
        'papers = Agent("papers")\n'
        "parallel = web | papers\n"
        'deep = Agent("deep")\n'
        'quick = Agent("quick")\n'
        "fallback = deep // quick\n"
        'none = Agent("none")\n'
        'route = Route("found").contains("x", fallback).otherwise(none)\n'
        'pipeline = S.default(tier="silver") >> parallel >> route\n'
        "root_agent = pipeline.build()\n"
    )


def test_a_lambda_is_written_as_it_stands() -> None:
    """What it uses of its module is imported; it is another function, so the hash of the tree tells."""
    from adk_fluent.ir import ir_hash

    source = to_source(LARGE)
    assert "gate(lambda state: state['total'] > LIMIT and (not state.get('done')))" in source
    assert "S.compute(n=lambda state: len(state))" in source
    assert "import LIMIT\n" in source
    assert ir_hash(made(source)) == ir_hash(LARGE.node)


SETS = """
from adk_fluent import Agent, S
from adk_fluent.adopt import to_source
names = {"b", "a", "d", "c", ("e", frozenset({"g", "f"}))}
print(to_source(S.set(names=names, more=frozenset(names), deep=[{"x": {"q", "p", "o"}}]) >> Agent("a")))
"""


def test_sets_are_written_in_one_order() -> None:
    """The same expression gives the same source in every process, whatever the order of its sets there."""
    sources = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SETS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=limits.LIMIT,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(sources) == 1


def test_a_token_is_left_out_and_told() -> None:
    """Source is no place for one."""
    source = written(RemoteAgent("far", endpoint="https://x.example", auth=AuthConfig(token="s3cret")))
    assert source.left_out == ("auth of far: a token does not belong into source.",)
    assert "# Left out: auth of far" in source.text
    assert "s3cret" not in source.text
    with pytest.raises(ArgumentError, match=r"cannot refer to tools.0. of 'a'"):
        to_source(Agent("a").tools(T.openapi(tools.PETS, auth=tools.TOKEN)))


def test_what_cannot_be_written_is_named() -> None:
    """One line: what, and of which agent."""
    held = 3
    fails: dict[str, AnyExpr] = {
        "cannot refer to until of 'again'": Agent("a").until(lambda state: held > 2).named("again"),
        "cannot refer to middleware of 'a'": Agent("a").middleware(cast(Any, _local())),
        r"cannot refer to tools.0. of 'a'": Agent("a").tools(T.toolset(tools.Box())),
    }
    for message, expression in fails.items():
        with pytest.raises(ArgumentError, match=message):
            to_source(expression)


@pytest.mark.parametrize("factory", [None, staticmethod(lambda: S.identity())], ids=["none", "others"])
def test_an_operation_without_a_fitting_factory(factory: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source makes such an operation of its class, as a function that a pipeline runs."""
    keep = Agent("a") >> S.pick("draft")
    if factory is None:
        monkeypatch.delattr(S, "pick")
    else:
        monkeypatch.setattr(S, "pick", factory)
    assert "Pick(keys=" in the_same(keep)


def _local() -> object:
    class Local(Middleware):
        async def before_model(self, ctx: object, request: object) -> None:
            """Nothing."""

    return Local()


def test_a_live_object_by_its_name() -> None:
    """Middleware and toolsets are no data, so they are imported."""
    the_same(Agent("a").middleware(QUIET))
    assert ".tools(BOX)" in the_same(Agent("a").tools(BOX))


KINDS = st.sampled_from(["S", "A"])


@settings(max_examples=examples(80), deadline=None)
@given(KINDS, st.integers(0, 2**20))
def test_any_operation(kind: str, seed: int) -> None:
    """`S` and `A`, with whatever their fields may hold."""
    from random import Random

    from adk_fluent.ir import ArtifactNode, TransformNode
    from tests.artifacts.operations import Sampler as Artifacts
    from tests.state.operations import Sampler as States

    if kind == "S":
        node: Any = TransformNode(fn=States(Random(seed), ("k0", "user:k1", "k2")).any())
    else:
        node = ArtifactNode(operation=Artifacts(Random(seed), ("k0", "k1"), files=("f", "user:g.csv")).any())
    functions = (call.function for call in node.calls())
    assume(all(isinstance(one, Match) or import_path(one) for one in functions))  # some are made on the spot
    assume("Together" not in repr(node))  # no factory gives one in another,
    assume("Load(" not in repr(node))  # nor a loading into another key than the file's name
    the_same(node)
