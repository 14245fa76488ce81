"""Arguments of `A` that are accepted or refused when an expression is written."""

from __future__ import annotations

from typing import Any

import pytest

from adk_fluent import A, Agent, Pipeline, S, T
from adk_fluent.artifacts.operations import ConditionalOperations
from adk_fluent.artifacts.operations.files import Load, Publish, Save, Snapshot, Version
from adk_fluent.errors import ADKFluentError, ArgumentError, UnknownMethodError
from adk_fluent.ir import ArtifactNode, Match
from adk_fluent.state import StateSchema


class Desk(StateSchema):
    report: str


def operation(step: Any) -> object:
    """The operation of a step."""
    return step.node.operation


def test_defaults_of_arguments() -> None:
    """The key is the file's own name; the type follows from the ending; the scope is the session."""
    assert operation(A.publish("a/report.md")) == Publish(filename="a/report.md", key="report")
    assert operation(A.snapshot("user:report.md")) == Snapshot(filename="user:report.md", key="report")
    assert operation(A.load("report")) == Load(filename="report", key="report")
    assert operation(A.version("report.md")) == Version(filename="report.md", key="report_version")
    assert A.list().node.key_writes == ("artifacts",)


def test_given_arguments_are_kept() -> None:
    """Scope, type and metadata are kept; a field of a schema is a key; what is given stays as it was."""
    metadata = {"by": ["me"]}
    step = A.publish("x.md", Desk.report, mime=A.mime.TEXT, metadata=metadata, scope="user")
    metadata["by"].append("you")
    assert operation(step) == Publish(
        filename="user:x.md", key="report", mime="text/plain", metadata=(("by", ["me"]),)
    )
    content = {"a": [1]}
    saved = A.save("x.json", content)
    content["a"].append(2)
    assert operation(saved) == Save(filename="x.json", content={"a": [1]})
    assert operation(A.publish("user:x.md", "k", scope="user")) == Publish(filename="user:x.md", key="k")


def test_artifacts_run_after_an_expression_in_order() -> None:
    """`.artifacts(a, b)` is `>> a >> b`, on an agent and on any expression."""
    first, second = A.publish("a.md", "x"), A.delete("b.md")
    for expression in (Agent("a"), Agent("a") | Agent("b"), S.set(x=1)):
        assert expression.artifacts(first, second) == expression >> first >> second
        assert expression.artifacts(first >> second) == expression >> first >> second


def test_when_takes_a_key_or_a_predicate() -> None:
    """A key stands for "set and true"; a chain runs in order."""
    step = A.when("flag", A.delete("a") >> A.delete("b"))
    found = operation(step)
    assert isinstance(found, ConditionalOperations)
    assert found.test == Match("flag", "truthy", True)
    assert [type(node) for node in found.steps] == [ArtifactNode, ArtifactNode]


async def later(state: object) -> bool:
    """A predicate that must be awaited."""
    return True


ANY: Any = A
AGENT: Any = Agent("a")
BAD: list[tuple[Any, str]] = [
    (lambda: ANY.publish(""), "A.publish() takes a filename such as 'report.md', and '' is empty."),
    (lambda: ANY.load("user:"), "A.load() takes a filename such as 'report.md', and 'user:' is empty."),
    (lambda: ANY.delete(3), "A.delete() takes a filename as text, not int 3."),
    (
        lambda: ANY.save("../x", "y"),
        "A.save() takes a filename such as 'report.md', and '../x' leads out of its",
    ),
    (lambda: ANY.for_llm(""), "A.for_llm() takes a filename such as 'report.md', and '' is empty."),
    (
        lambda: ANY.publish("my report.md"),
        "A.publish(): 'my report.md' cannot be a state key; name one: from_key='...'.",
    ),
    (
        lambda: ANY.load("2024.md"),
        "A.load(): '2024.md' cannot be a state key; name one: into_key='...', with "
        "A.snapshot('2024.md', into_key='...').",
    ),
    (
        lambda: ANY.snapshot("{topic}.md"),
        "A.snapshot(): '{topic}.md' cannot be a state key; name one: into_key='...'.",
    ),
    (
        lambda: ANY.publish("a.md", from_key=""),
        "A.publish(from_key=) takes a state key as text, not str ''.",
    ),
    (
        lambda: ANY.publish("a.md", mime="markdown"),
        "A.publish(mime=) takes a MIME type such as 'text/markdown', not 'markdown'. Did you mean "
        "A.mime.MARKDOWN?",
    ),
    (
        lambda: ANY.save("a", "x", mime="tetx/csv"),
        "A.save(mime=) takes a MIME type such as 'text/markdown', not 'tetx/csv'. Did you mean 'text/csv'?",
    ),
    (lambda: ANY.save("a", "x", mime=3), "A.save(mime=) takes a MIME type such as 'text/markdown', not 3."),
    (lambda: ANY.save("a", None), "A.save() needs content=: text, bytes, or what JSON can hold."),
    (
        lambda: ANY.publish("a.md", metadata="me"),
        "A.publish(metadata=) takes a dict with text keys, not str 'me'.",
    ),
    (
        lambda: ANY.publish("a.md", metadata={1: 2}),
        "A.publish(metadata=) takes a dict with text keys, not dict",
    ),
    (
        lambda: ANY.publish("a.md", metadata={"at": object}),
        "A.publish(metadata=) cannot be written as JSON: Object of type type is not JSON serializable.",
    ),
    (
        lambda: ANY.publish("a.md", scope="app"),
        "A.publish(scope=) is one of 'session', 'user', not 'app'.",
    ),
    (lambda: ANY.snapshot("a.md", version=-1), "A.snapshot(version=) takes a number from 0 on, not -1."),
    (
        lambda: ANY.snapshot("a.md", version=True),
        "A.snapshot(version=) takes a number from 0 on, not True.",
    ),
    (
        lambda: ANY.snapshot("a.md", decode="jsn"),
        "A.snapshot(decode=) is one of 'text', 'json', 'csv', 'markdown', 'base64', not 'jsn'. Did you mean "
        "'json'?",
    ),
    (lambda: ANY.publish_many(), "A.publish_many() needs at least one pair: (filename, key)."),
    (lambda: ANY.publish_many("a.md"), "A.publish_many() takes pairs: (filename, key), not str 'a.md'."),
    (lambda: ANY.publish_many(("a.md",)), "A.publish_many() takes pairs: (filename, key), not tuple"),
    (
        lambda: ANY.snapshot_many(("", "x")),
        "A.snapshot_many() takes a filename such as 'report.md', and '' is",
    ),
    (
        lambda: ANY.snapshot_many(("a", "x"), ("b", "x")),
        "A.snapshot_many() gives two artifacts the key 'x'.",
    ),
    (lambda: ANY.as_json(3), "A.as_json() takes a state key as text, not int 3."),
    (lambda: ANY.when("k", S.set(x=1)), "A.when() takes A operations only, not the expression"),
    (lambda: ANY.when("k", "x"), "A.when() takes A operations only, not str 'x'."),
    (
        lambda: ANY.when(later, A.list()),
        "A.when() takes a plain function; an async one can be a separate step",
    ),
    (lambda: ANY.when(3, A.list()), "A.when() takes a function of the state, not int 3."),
    (
        lambda: Agent("a").artifacts(),
        "artifacts() needs at least one A operation, such as A.publish('report.md').",
    ),
    (lambda: AGENT.artifacts("a.md"), "artifacts() takes A operations only, not str 'a.md'."),
    (
        lambda: Agent("a").artifacts(Pipeline(A.list(), Agent("b"))),
        "artifacts() takes A operations only, not the",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_impossible_arguments_are_refused_at_once(call: Any, message: str) -> None:
    """One line says which argument of which factory is wrong, and what to write."""
    with pytest.raises(ADKFluentError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_misspelt_names_are_answered_with_the_nearest() -> None:
    """`A`, `A.mime` and `A.tool` know their own names."""
    names: Any = A
    for call, near in (
        (lambda: names.publsh, "^A has no 'publsh'. Did you mean 'publish'"),
        (lambda: names.mime.MARKDWN, "^A.mime has no 'MARKDWN'. Did you mean 'MARKDOWN'"),
        (lambda: names.tool.lod, "^A.tool has no 'lod'. Did you mean 'load'"),
    ):
        with pytest.raises(UnknownMethodError, match=near):
            call()


def test_a_spec_is_no_step() -> None:
    """`A.for_llm` belongs to an agent's context; as a step it is an error that says so."""
    step: Any = A.for_llm("a.md")
    with pytest.raises(
        ArgumentError, match=r"A C spec belongs to an agent: Agent\(\.\.\.\)\.context\(\.\.\.\)"
    ):
        assert Agent("a") >> step


def test_artifact_tools_compose() -> None:
    """`|` joins them with each other, with `T` and with functions."""

    def look(name: str) -> str:
        """Look."""
        return name

    agent = Agent("a").tools(A.tool.save() | A.tool.load()).tools(T.fn(look) | A.tool.list())
    assert [getattr(tool, "name", "look") for tool in agent.node.tools] == [
        "save_artifact",
        "load_artifacts",
        "look",
        "list_artifacts",
    ]
