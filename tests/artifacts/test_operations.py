"""Every artifact operation does what it declares, for all states and files."""

from __future__ import annotations

import json
import pickle
from random import Random
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.genai import types

from adk_fluent import A, Agent, Pipeline
from adk_fluent.analysis.plan import plan
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, UNKNOWN, Fact
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.analysis.values.updates import apply_transform
from adk_fluent.artifacts.operations import OPERATIONS, ArtifactOperation
from adk_fluent.artifacts.requests import DeleteFile, File, LatestVersion, LoadFile, SaveFile
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts import check_all
from adk_fluent.errors import ADKFluentError, ArtifactError, MissingKeyError
from adk_fluent.ir import ArtifactNode, Match, from_dict, ir_hash, to_dict
from adk_fluent.ir.keys import ANY_FILE
from adk_fluent.state.effects import Needs, Writes, all_effects
from adk_fluent.testing import mock_backend
from adk_fluent.viz import to_mermaid
from tests.artifacts.operations import Sampler, food, kinds, states
from tests.artifacts.shelf import Shelf

KEYS = ("k0", "k1", "k2", "user:u")
FILES = ("f0.md", "f1.json", "user:f.csv", "plain")
ROUNDS = 60
KINDS = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
Round = tuple[ArtifactOperation, dict[str, Any], Shelf]


def rounds(kind: type[ArtifactOperation], count: int = ROUNDS) -> list[Round]:
    """Examples of an operation, each with a state and with files with which it mostly works."""
    made: list[Round] = []
    for seed in range(count):
        random = Random(f"{kind.name}{seed}")
        operation = Sampler(random, KEYS, files=FILES).of(kind)
        state = states(random, KEYS)
        if random.random() < 0.8:
            state |= food(operation)
        texts = (b"text", b'{"a": [1]}', b"a,b\n1,2", b"# One\ntext")
        files = {name: [File(random.choice(texts), "text/plain")] for name in FILES if random.random() < 0.7}
        made.append((operation, state, Shelf(files)))
    return made


def ran(operation: ArtifactOperation, state: dict[str, Any], shelf: Shelf) -> dict[str, Any] | None:
    """The state after an operation; `None` if it raised."""
    try:
        return {**state, **shelf.do(operation, state)}
    except ADKFluentError:
        return None


def test_every_operation_is_a_factory_of_a() -> None:
    """The classes are those that `A` makes, and each is known by its name; `A` has little else."""
    names = {kind.name for kind in kinds()}
    assert names == OPERATIONS.keys()
    public = {name for name in vars(A) if not name.startswith("_")}
    assert public - names == {"mime", "tool", "for_llm"}
    assert names <= public


@KINDS
def test_an_operation_keeps_to_its_declaration(kind: type[ArtifactOperation]) -> None:
    """An operation reads, writes and requests only keys and files that it declares."""
    worked = 0
    for operation, state, shelf in rounds(kind):
        before = set(shelf.files)
        after = ran(operation, state, shelf)
        if after is None:
            continue
        worked += 1
        effects = all_effects(ArtifactNode(operation=operation))
        for effect in operation.effects:
            if isinstance(effect, Needs):
                assert effect.key in state, operation
            elif isinstance(effect, Writes):
                assert effect.key in after, operation
                assert effect.type is None or isinstance(after[effect.key], effect.type), operation
        written = {key for effect in effects for key in effect.writes}
        assert {key for key in after if after[key] != state.get(key)} <= written, operation
        assert written <= operation.access.writes
        uses = {(use.how, use.filename) for use in operation.artifacts}
        for request in shelf.asked:
            match request:
                case SaveFile(filename):
                    assert ("saves", filename) in uses
                case LoadFile(filename) | LatestVersion(filename):
                    assert ("reads", filename) in uses
                    assert filename in before or ("saves", filename) in uses
                case DeleteFile(filename):
                    assert ("deletes", filename) in uses
                case _:
                    pass
        for use in operation.artifacts:
            assert use.how != "saves" or not use.certain or use.filename in shelf.files
            assert use.how != "deletes" or not use.certain or use.filename not in shelf.files
    assert worked > ROUNDS // 10


@KINDS
def test_an_operation_raises_without_its_needs(kind: type[ArtifactOperation]) -> None:
    """Without a key or a file that it needs, it raises, and then nothing was saved."""
    for operation, state, shelf in rounds(kind):
        if ran(operation, state, Shelf(dict(shelf.files))) is None:
            continue
        for effect in operation.effects:
            if isinstance(effect, Needs):
                poor = Shelf()
                without = {key: value for key, value in state.items() if key != effect.key}
                with pytest.raises(MissingKeyError, match=rf"^A\.{kind.name} needs state key '{effect.key}'"):
                    poor.do(operation, without)
                assert poor.asked == []
        for use in operation.artifacts:
            if use.how == "reads" and use.certain:
                files = {name: list(file) for name, file in shelf.files.items() if name != use.filename}
                assert ran(operation, state, Shelf(files)) is None, operation


@KINDS
def test_the_analysis_is_right_about_it(kind: type[ArtifactOperation]) -> None:
    """From a known state, the facts about the state after an operation hold: present keys and types."""
    for operation, state, shelf in rounds(kind):
        after = ran(operation, state, shelf)
        if after is None:
            continue
        node = ArtifactNode(operation=operation)
        step = plan(node).root
        known = Knowledge()
        for key in {*KEYS, *state}:
            known.set(key, Fact(PRESENT if key in state else ABSENT))
        apply_transform(known, step, node)
        for key in KEYS:
            fact = known.get(key)
            assert fact.mask & (PRESENT if key in after else ABSENT) or fact.mask & UNKNOWN, (operation, key)
            if fact.type is not None and key in after and after[key] != state.get(key):
                assert isinstance(after[key], fact.type), operation  # pyright: ignore[reportArgumentType]  # a class here


@KINDS
async def test_a_run_does_the_same(kind: type[ArtifactOperation]) -> None:
    """ADK's runner and service give the state, and the files with all their versions, that it gives alone."""
    config = ExecutionConfig(contracts="off")
    for operation, state, shelf in rounds(kind, 5):
        service = InMemoryArtifactService()
        seeds = [A.save(name, file[0].data, mime=file[0].mime) for name, file in shelf.files.items()]
        step = Pipeline[Any].from_node(ArtifactNode(operation=operation))
        whole = Pipeline(*seeds, step)
        backend = mock_backend({}, artifact_service=service)
        expected = ran(operation, state, shelf)
        if expected is None:
            with pytest.raises((ArtifactError, MissingKeyError), match=f"Step '{kind.name}"):
                await whole.run("go", backend=backend, state=state, config=config)
            continue
        result = await whole.run("go", backend=backend, state=state, config=config)
        assert result.state == expected
        kept = {
            path.rpartition("/")[2]: [entry.data.inline_data for entry in versions]
            for path, versions in service.artifacts.items()
        }
        assert kept == {
            name: [types.Blob(data=file.data, mime_type=file.mime) for file in found]
            for name, found in shelf.files.items()
        }


@KINDS
def test_an_operation_is_a_stored_value(kind: type[ArtifactOperation]) -> None:
    """An operation survives JSON and pickling with equality and hash, and is found wherever it stands."""
    for operation, _, _ in rounds(kind, 10):
        if any(not isinstance(test, Match) for test in conditions_in(operation)):
            continue
        node = ArtifactNode(operation=operation)
        again = from_dict(json.loads(json.dumps(to_dict(node))))
        assert again == node
        assert ir_hash(again) == ir_hash(node)
        assert pickle.loads(pickle.dumps(node)) == node


def conditions_in(operation: ArtifactOperation) -> list[object]:
    """The predicates in an operation."""
    inner = [test for step in operation.given.get("steps", ()) for test in conditions_in(step.operation)]
    return [*([operation.given["test"]] if "test" in operation.given else ()), *inner]


def test_only_an_operation_of_a_is_read_back() -> None:
    """A stored operation of another name is refused by name."""
    data = to_dict(A.delete("x.md").node)
    data["root"]["operation"]["name"] = "burn"
    with pytest.raises(ADKFluentError, match="A has no operation 'burn'"):
        from_dict(data)


@KINDS
def test_everybody_knows_it(kind: type[ArtifactOperation]) -> None:
    """Checks, names, pictures and explanations have words for it, and it is documented."""
    operation = rounds(kind, 1)[0][0]
    expression = Agent("a") >> Pipeline[Any].from_node(ArtifactNode(operation=operation))
    assert kind.__doc__
    assert check_all(expression) is not None
    assert operation.wording.split()[0] in to_mermaid(expression.node)
    assert f"{kind.name} (artifact)" in expression.explain().shape
    for use in operation.artifacts:
        assert f"[{use.filename}]" in expression.explain().shape


def test_names_that_the_state_fills_in() -> None:
    """`{key}` in a filename is read, required unless marked, and stands for any file until the run."""
    step = A.publish("{topic}/{part?}.md", from_key="draft")
    assert {(read.key, read.level) for read in step.node.key_reads()} == {
        ("topic", "required"),
        ("part", "optional"),
        ("draft", "required"),
    }
    assert [use.filename for use in step.node.artifact_uses()] == [ANY_FILE]
    shelf = Shelf()
    shelf.do(OPERATIONS["publish"](filename="{topic}.md", key="draft"), {"topic": "tea", "draft": "x"})
    assert list(shelf.files) == ["tea.md"]
    with pytest.raises(MissingKeyError, match=r"A.delete needs state key 'topic' for the name '\{topic\}'"):
        shelf.do(OPERATIONS["delete"](filename="{topic}"), {})
    with pytest.raises(ArtifactError, match=r"'\{topic\}' became '../x', which leads out of its folder"):
        shelf.do(OPERATIONS["delete"](filename="{topic}"), {"topic": "../x"})


def test_operations_under_a_condition_run_in_order() -> None:
    """Operations under `A.when` run in order, each on the state that the one before it has left."""
    load = A.snapshot("a.json", "rows", decode="json")
    chain = A.when("go", load >> A.as_csv("rows") >> A.publish("rows.csv"))
    node: Any = chain.node
    operation: ArtifactOperation = node.operation
    shelf = Shelf({"a.json": [File(b'[{"x": 1}]', "application/json")]})
    assert shelf.do(operation, {}) == {}
    assert shelf.do(operation, {"go": True}) == {"rows": "x\n1\n"}
    assert shelf.files["rows.csv"][0].data == b"x\n1\n"
    assert {read.key for read in chain.node.key_reads()} == {"go"}
    assert A.when("go", A.publish("x.md", from_key="never")).check(state={"go": 1}).errors
