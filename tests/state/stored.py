"""Expressions of every `S` operation, of functions that have an import path, so that all can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adk_fluent import S
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Match
from tests.samples import Ticket, add, count_words, is_done, look, to_text

STORED: Mapping[str, Expr[Any]] = {
    "pick": S.pick("b", "a"),
    "drop": S.drop("b", "a", "user:x"),
    "rename": S.rename(a="b", b="a", **{"user:x": "y"}),
    "default": S.default(a=1, b="x"),
    "set": S.set(a=1, b=None, c=[1, {"d": 2.0}]),
    "merge": S.merge("a", "b", into="c"),
    "merge with a function": S.merge("a", "b", into="a", fn=add),
    "transform": S.transform("a", to_text),
    "compute": S.compute(a=count_words, b=is_done),
    "fn": S.fn(count_words),
    "fn that is declared in place": S.fn(count_words, reads=["x"], writes=["y", "z"]),
    "fn that says nothing": S.fn(look),
    "guard": S.guard(is_done, "not yet"),
    "guard of a comparison": S.guard(Match("a", "gt", 3), "too few"),
    "require": S.require("b", "a"),
    "validate": S.validate(Ticket),
    "log": S.log("a", label="now"),
    "log of everything": S.log(),
    "identity": S.identity(),
    "accumulate": S.accumulate("a", into="all"),
    "counter": S.counter("n", step=0.5),
    "history": S.history("user:a", max_size=3),
    "flatten": S.flatten("a"),
    "unflatten": S.unflatten(),
    "zip": S.zip("b", "a", into="rows"),
    "group_by": S.group_by("items", to_text, into="groups"),
    "when": S.when("flag", S.set(a=1) >> S.drop("b") >> S.rename(c="d")),
    "when a predicate holds": S.when(is_done, S.drop("b")),
    "branch": S.branch("kind", x=S.drop("a"), y=S.pick("b") >> S.when("c", S.flatten("d"))),
    "together": S.set(a=1) + S.drop("b") + S.rename(c="d"),
    "together in a branch": S.branch("kind", x=S.counter("n") + S.pick("n")),
    "a chain": (S.set(a=1) >> S.drop("b")).named("line"),
    "a named step": S.drop("a").named("clean"),
}
