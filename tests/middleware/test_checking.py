"""What is attached is checked by name and signature, in one clear line, and says nothing of ADK."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from adk_fluent import Agent, Preset
from adk_fluent.errors import ArgumentError
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.ir.base import rewrite
from adk_fluent.middleware import Middleware
from tests.limits import LIMIT


class Misspelt(Middleware):
    async def before_modle(self, ctx: Any, request: Any) -> None: ...


class Sync:
    def before_model(self, ctx: Any, request: Any) -> None: ...


class NoGenerator:
    async def around_model(self, ctx: Any, request: Any, call: Any) -> None: ...


class TooFew:
    async def before_tool(self, ctx: Any, args: Any) -> None: ...


class WrongName:
    async def before_model(self, ctx: Any, llm_request: Any) -> None: ...


class NeedsMore:
    async def before_model(self, ctx: Any, request: Any, *, more: int) -> None: ...


class Duck:
    async def after_model(self, ctx: Any, response: Any, more: int = 1) -> None: ...


class Flexible:
    async def before_model(self, *args: Any) -> None: ...

    async def after_model(self, ctx: Any, _response: Any) -> None: ...


class Empty(Middleware):
    pass


def flexible() -> Any:
    """A middleware that has no base class, which a type checker would want."""
    return Flexible()


WRONG = {
    "misspelt": (Misspelt(), "Misspelt.before_modle: there is no such hook. Did you mean 'before_model'?"),
    "sync": (Sync(), "Sync.before_model must be async: write `async def before_model(self, ctx, request)`."),
    "no generator": (
        NoGenerator(),
        "NoGenerator.around_model must be an async generator: write "
        "`async def around_model(self, ctx, request, call)` with "
        "`async for response in call(request): yield response`.",
    ),
    "too few": (
        TooFew(),
        "TooFew.before_tool(ctx: Any, args: Any) cannot be called: write "
        "`async def before_tool(self, ctx, tool_name, args)`.",
    ),
    "wrong name": (
        WrongName(),
        "WrongName.before_model(ctx: Any, llm_request: Any) cannot be called: write "
        "`async def before_model(self, ctx, request)`.",
    ),
    "needs more": (
        NeedsMore(),
        "NeedsMore.before_model(ctx: Any, request: Any, *, more: int) cannot be called: write "
        "`async def before_model(self, ctx, request)`.",
    ),
    "class": (Flexible, "middleware() takes objects, not a class; make one: Flexible(...)."),
    "list": (
        [Flexible()],
        "middleware() takes one middleware after the other, not a list; unpack it with *.",
    ),
    "text": (
        "retry",
        "middleware() takes middleware, and str has no hook, such as before_model(self, ctx, request).",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_middleware_is_refused_when_attached(case: str) -> None:
    """A misspelt hook, a wrong signature or a thing without hooks is refused with what to write instead."""
    value, message = WRONG[case]
    attached: Any = value
    with pytest.raises(ArgumentError) as caught:
        Agent("a").middleware(attached)
    assert str(caught.value) == message


def test_a_preset_can_bring_middleware() -> None:
    """`Preset(middleware=...)` attaches the very object it was given."""
    one = flexible()
    assert Agent("a").use(Preset(middleware=one)).node.annotations.middleware[0] is one


def test_the_option_of_a_run_is_checked_alike() -> None:
    """`middleware=` refuses what `.middleware()` refuses, and takes one or a list."""
    wrong: Any = [Misspelt()]
    with pytest.raises(ArgumentError, match="Did you mean 'before_model'"):
        Agent("a").stream("hi", middleware=wrong)
    with pytest.raises(ArgumentError, match="Did you mean 'before_model'"):
        Agent("a").to_app(middleware=Misspelt())


@pytest.mark.parametrize("fine", [Duck(), Flexible(), Empty()], ids=lambda value: type(value).__name__)
def test_what_can_be_called_is_taken(fine: Any) -> None:
    """Hooks without the base class, with `*args`, defaults or an underscore are fine, as are none."""
    assert Agent("a").middleware(fine).node.annotations.middleware == (fine,)


def test_attaching_needs_no_adk() -> None:
    """An expression with middleware is built and checked without google.adk."""
    code = (
        "import sys; from adk_fluent import Agent; from adk_fluent.middleware import Middleware, Context\n"
        "class M(Middleware):\n    async def before_run(self, ctx: Context) -> None: ...\n"
        "expr = Agent('a').middleware(M()) >> Agent('b'); expr.check(); str(expr.explain())\n"
        "assert not [name for name in sys.modules if name.startswith('google.adk')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr


def test_middleware_is_part_of_the_tree() -> None:
    """It stays through a rewrite, makes expressions equal or not, and adds up in order."""
    one, two = flexible(), Empty()
    agent = Agent("a").middleware(one).middleware(two)
    assert agent.node.annotations.middleware == (one, two)
    assert agent == Agent("a").middleware(one, two)
    assert hash(agent) == hash(Agent("a").middleware(one, two))
    assert agent != Agent("a").middleware(two, one)
    pipeline = (agent >> Agent("b")).node
    renamed = rewrite(pipeline, lambda node: node.replace(name=f"{node.name}_x"))
    assert renamed.children[0].annotations.middleware == (one, two)
    assert ir_hash(pipeline) == ir_hash((agent >> Agent("b")).node)
    assert ir_hash(pipeline) != ir_hash((Agent("a") >> Agent("b")).node)


def test_a_stored_graph_names_what_cannot_be_stored() -> None:
    """A middleware object has no import path, which storing says with the step that has it."""
    from adk_fluent.errors import CodecError

    with pytest.raises(CodecError, match=r"agent 'a', field annotations\.middleware: a Flexible cannot"):
        to_dict(Agent("a").middleware(flexible()).node)
    assert from_dict(to_dict(Agent("a").node)).annotations.middleware == ()


def test_a_frame_of_its_own() -> None:
    """A pipeline with middleware stays one when more is joined to it, so its middleware has its place."""
    joined = (Agent("a") >> Agent("b")).middleware(flexible()) >> Agent("c")
    assert [child.kind for child in joined.node.children] == ["sequence", "agent"]
