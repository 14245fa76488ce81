"""The visibility of each step's answers, inferred from its place in the tree."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents import BaseAgent

from adk_fluent import (
    Agent,
    FanOut,
    Loop,
    Pipeline,
    RemoteAgent,
    Route,
    S,
    gate,
    map_over,
    race,
    tap,
    transfer,
    visibility,
)
from adk_fluent.adopt import adopt
from adk_fluent.analysis.visibility import StepVisibility, infer_visibility, outlet_of
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr

a, b, c, d = (Agent(name) for name in "abcd")


def always(state: object) -> bool:
    """A predicate."""
    return True


def users(expression: Expr[Any]) -> str:
    """The agents that the user sees, in one word."""
    return "".join(name for name, seen in sorted(infer_visibility(expression).items()) if seen == "user")


def nothing(state: object) -> None:
    """A transform."""


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        (a, "a"),
        (a >> b >> c, "c"),
        (a >> nothing, "a"),
        (a >> S.set(x=1) >> tap(print), "a"),
        (a.writes("x") >> b, "b"),
        (a | b, "ab"),
        ((a | b) >> c, "c"),
        (a >> (b | c), "bc"),
        (a.writes("k") >> Route("k").eq("x", b).otherwise(c), "bc"),
        (a.writes("k") >> Route("k").eq("x", b >> c), "c"),
        (Route("k").eq("x", a) >> b, "b"),
        ((a >> b) * 3, "b"),
        ((a >> b) * 3 >> c, "c"),
        (a >> Loop(b, c, S.set(x=1)), "c"),
        (Loop(a, Loop(b, c)), "c"),
        (map_over("xs", a >> b), "b"),
        (map_over("xs", a) >> b, "b"),
        (a // b, "ab"),
        ((a // b) >> c, "c"),
        (race(a, b >> c), "ac"),
        (a.timeout(3), "a"),
        (a.timeout(3) >> b, "b"),
        (a.proceed_if(always), "a"),
        (a >> b.proceed_if(always), "b"),
        (a.delegate(b, c), "abc"),
        (a.delegate(b) >> c, "c"),
        (a.delegate(Pipeline(b, c)) >> S.set(x=1), "ac"),
        (a >> b.delegate(c.delegate(d)), "bcd"),
        (a.timeout(3) // (b >> c), "ac"),
        (a >> map_over("xs", b | c), "bc"),
        (race(a, b) // c >> d, "d"),
        (S.capture("q") >> a.tap(print), "a"),
        (RemoteAgent("a", endpoint="http://127.0.0.1:1", fallback=b), "ab"),
        (RemoteAgent("a", endpoint="http://127.0.0.1:1") >> c, "c"),
        (a >> transfer("c", condition=always) >> b >> c >> d, "cd"),
        (a >> Pipeline("inner", transfer("c", condition=always), b) >> c >> d, "d"),
        (Pipeline("late", a, b) >> transfer("late", condition=always) >> d, "bd"),
    ],
    ids=repr,
)
def test_the_place_decides(expression: Expr[Any], seen: str) -> None:
    """The agents that may speak last are visible to the user; all others are internal."""
    assert users(expression) == seen
    internal = [name for name, who in infer_visibility(expression).items() if who == "internal"]
    assert set(internal) == {name for name in infer_visibility(expression) if name in "abcd"} - set(seen)


def test_steps_that_say_nothing_are_zero_cost() -> None:
    """Transforms, taps, routes, captures, transfers and composites say nothing; a gate speaks to the user."""
    pipeline = S.capture("q") >> a >> S.set(x=1) >> tap(always) >> gate(always) >> Route("x").eq(1, b)
    seen = infer_visibility(pipeline)
    assert seen["gate"] == "user"
    assert infer_visibility(gate(always).hide() >> a)["gate"] == "user"
    silent = {"sequence", "capture", "set", "always", "route"}
    assert {name for name, who in seen.items() if who == "zero_cost"} == silent


def test_show_and_hide_win_over_the_place() -> None:
    """`.show()` and `.hide()` decide for their expression, and inside it again for the inner one."""
    assert users(a.show() >> b) == "ab"
    assert users(a >> b.hide()) == ""
    assert users((a >> b).hide() >> c) == "c"
    assert users((a.show() >> b).hide()) == "a"
    assert users((a >> b.hide()).show()) == "a"


def test_policies_hold_for_what_is_inside() -> None:
    """`.transparent()` shows all agents inside; `.filtered()` and `.annotated()` change no visibility."""
    assert users((a >> b).transparent() >> c) == "abc"
    assert users((a >> b.hide()).transparent()) == "a"
    assert users((a >> b).filtered()) == users((a >> b).annotated()) == "b"


def test_a_gate_and_what_stands_around_it() -> None:
    """An agent before a gate is internal if another agent speaks after the gate."""
    seen = infer_visibility(a >> gate(always, message="Send it?") >> b)
    assert (seen["a"], seen["gate"], seen["b"]) == ("internal", "user", "user")
    assert infer_visibility(a >> gate(always))["a"] == "user"


def test_a_delegate_has_the_visibility_of_its_parent() -> None:
    """Agents that get control by a transfer are seen as their parent is, unless they say otherwise."""
    assert users(a.delegate(b, c).hide() >> d) == "d"
    assert users(a.delegate(b.hide(), c)) == "ac"
    assert users(a.delegate(b.show(), c) >> d) == "bd"


def standing_in(expression: Expr[Any]) -> str:
    """The agents whose text is the answer if no visible agent speaks, in one word."""
    by_author = outlet_of(expression.node).by_author
    return "".join(name for name, seen in sorted(by_author.items()) if seen.stands_in)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (a >> b, ""),
        (a >> b.proceed_if(always), "a"),
        (a >> (b >> c).proceed_if(always), "a"),
        (a >> b >> c.proceed_if(always), "b"),
        (a >> b.proceed_if(always) >> c, ""),
        (a >> Route("k").eq("x", b), ""),
        (a >> map_over("xs", b), "a"),
        (a >> (b // S.set(x=1)), "a"),
        (a >> (b // c), ""),
        (a >> race(b, S.set(x=1)), "a"),
        (a >> b.hide(), "a"),
        (a.hide() >> b.hide(), ""),
        (a >> gate(always) >> b, ""),
        (Loop(a, b.proceed_if(always)) >> nothing, "a"),
    ],
    ids=repr,
)
def test_the_answer_when_later_steps_are_skipped(expression: Expr[Any], found: str) -> None:
    """An internal agent stands in where all that may speak to the user after it can be skipped."""
    assert standing_in(expression) == found


def blanked(expression: Expr[Any]) -> str:
    """The agents whose words are blanked for the caller, in one word."""
    by_author = outlet_of(expression.node).by_author
    return "".join(name for name, seen in sorted(by_author.items()) if seen.blanked and name in "abcd")


def test_the_nearest_policy_holds() -> None:
    """`.filtered()` blanks who is not for the user in its expression; an inner `.annotated()` undoes it."""
    assert blanked(a >> b) == ""
    assert blanked((a >> b >> c).filtered()) == "ab"
    assert blanked((a >> b).filtered() >> c >> d) == "ab"
    assert blanked(((a >> b).annotated() >> c >> d).filtered()) == "c"
    assert blanked((a >> b).filtered().annotated()) == ""
    assert blanked((a.show() >> b >> c.hide()).filtered()) == "bc"
    assert blanked((a >> b).filtered().transparent()) == ""


def test_unknown_authors_run_inside_a_tool() -> None:
    """Authors that a tree does not know are internal, but the user and ADK itself; all is seen of nothing."""
    outlet = outlet_of((a >> b).filtered().node)
    assert outlet.visibility_of("inside") == StepVisibility("internal", blanked=True)
    assert outlet.visibility_of("user") == outlet.visibility_of("model") == StepVisibility("user")
    assert outlet_of(S.set(x=1).node).visibility_of("anybody") == StepVisibility("user")


class Holds(BaseAgent):
    """An agent written by hand, of which only its name is known."""


def test_agents_inside_a_native_agent_have_its_visibility() -> None:
    """An agent that a native agent runs from outside the tree has the visibility of the native agent."""
    last = outlet_of((a >> Holds(name="holds")).node)
    assert last.visibility_of("held").visibility == "user"
    assert last.inside == StepVisibility("internal")
    hidden = outlet_of((adopt(Holds(name="holds")).hide() >> a).filtered().node)
    assert hidden.visibility_of("held").visibility == "internal"
    assert hidden.visibility_of("held").blanked
    assert hidden.inside.blanked
    two = adopt(Holds(name="one")) >> Holds(name="two")
    assert outlet_of(two.node).visibility_of("held").visibility == "internal"  # its native agent is unknown


def test_the_plugin_is_found_by_its_public_name() -> None:
    """`adk_fluent.visibility.VisibilityPlugin` is there; a misspelt name gets the nearest."""
    assert visibility.VisibilityPlugin(a).name == "adk_fluent_visibility"
    with pytest.raises(AttributeError, match=r"has no 'VisibilityPlugins'\. Did you mean 'VisibilityPlugin'"):
        _ = getattr(visibility, "VisibilityPlugins")  # noqa: B009


def test_a_reused_agent_is_judged_at_each_place() -> None:
    """The same agent used twice is internal where it stands first and visible where it stands last."""
    seen = infer_visibility(a >> b >> a)
    assert (seen["a"], seen["a_2"]) == ("internal", "user")


def test_a_built_agent_has_the_visibility_of_its_expression() -> None:
    """An expression, its node, the agent and the app built of it give the same map."""
    pipeline = FanOut(a, b) >> c
    maps = [infer_visibility(x) for x in (pipeline, pipeline.to_ir(), pipeline.build(), pipeline.to_app())]
    assert all(seen == maps[0] for seen in maps)
    with pytest.raises(ArgumentError, match="NoneType"):
        infer_visibility(None)
