"""Expressions of every `A` operation, with functions that have an import path, so that all can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adk_fluent import A, Agent
from adk_fluent.expr.base import Expr
from tests.samples import is_done

STORED: Mapping[str, Expr[Any]] = {
    "publish": A.publish("report.md"),
    "publish with all": A.publish("a.md", "x", mime=A.mime.HTML, metadata={"by": ["me", 1]}, scope="user"),
    "publish_many": A.publish_many(("a.md", "x"), ("{k}.csv", "user:y")),
    "save": A.save("a.txt", "text"),
    "save bytes": A.save("a.bin", b"\x00\xff"),
    "save data": A.save("a.json", {"a": [1, None]}),
    "snapshot": A.snapshot("a.md"),
    "snapshot with all": A.snapshot("a.csv", "rows", version=2, decode="csv", scope="user"),
    "snapshot_many": A.snapshot_many(("a.md", "x"), ("b.md", "y")),
    "load": A.load("user:a.md"),
    "list": A.list(),
    "version": A.version("a.md"),
    "delete": A.delete("a.md"),
    "as_json": A.as_json("x"),
    "as_csv": A.as_csv("x"),
    "as_text": A.as_text("x"),
    "from_json": A.from_json("x"),
    "from_csv": A.from_csv("x"),
    "from_markdown": A.from_markdown("x"),
    "when": A.when("flag", A.delete("a.md") >> A.save("a.md", "x")),
    "when a predicate holds": A.when(is_done, A.as_text("x")),
    "tools": Agent("a").tools(A.tool.save(), A.tool.load(), A.tool.list()),
}
