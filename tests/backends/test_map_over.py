"""`map_over`: one run of the body per item, answers in order, items apart from each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, MissingKeyError, TransformError
from adk_fluent.testing import call_tool
from tests.backends.support import (
    ANYWAY,
    Crowd,
    Hang,
    called,
    failing,
    play,
    raises_from,
    replies,
    script,
    seen,
    speakers,
    system,
)

WORKER = Agent("worker").instruct("Item: {_item}.")


class Size(BaseModel):
    size: int


def item(request: LlmRequest) -> str:
    """The item that a request is about."""
    return system(request).split("Item: ")[1].split(".")[0]


def shout(request: LlmRequest) -> str:
    """Answer with the item in capitals."""
    return item(request).upper()


def sized(request: LlmRequest) -> dict[str, int]:
    """Answer with the item as a size."""
    return {"size": int(item(request))}


async def run(expression: Any, items: object, responses: Any = None, **options: Any) -> Any:
    """Run with these items and a worker that shouts."""
    return await play(expression, {"worker": shout, **(responses or {})}, state={"items": items}, **options)


async def test_answers_keep_the_order_of_the_items() -> None:
    """The answers stand in the order of the items, even when they come in another."""
    others = asyncio.Event()

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        if item(request) == "a":
            await others.wait()
        elif item(request) == "c":
            others.set()
        yield item(request).upper()

    result = await run(map_over("items", WORKER), ["a", "b", "c"], {"worker": answer})
    assert result.state["results"] == ["A", "B", "C"]


async def test_the_output_key_and_the_item_key_can_be_chosen() -> None:
    """`item_key` names where the body finds its item, `output_key` where the answers go."""
    worker = Agent("worker").instruct("Item: {word}.")
    result = await run(map_over("items", worker, item_key="word", output_key="out"), ["a"])
    assert result.state == {"items": ["a"], "out": ["A"]}


async def test_the_item_key_is_gone_afterwards() -> None:
    """The item exists only while its body runs, also when a body writes the key itself."""
    after = S.compute(left=lambda s: "_item" in s)
    result = await run(map_over("items", WORKER) >> after, ["a", "b"])
    assert result.state["left"] is False
    assert "_item" not in result.state


async def test_an_item_key_from_before_is_still_there_afterwards() -> None:
    """A key of the same name that was there before keeps its value."""
    result = await play(S.set(_item="mine", items=["a"]) >> map_over("items", WORKER), {"worker": shout})
    assert result.state["_item"] == "mine"


@pytest.mark.parametrize(("allowed", "running"), [(1, 1), (3, 3), (7, 7), (50, 7), (None, 5)])
async def test_concurrency_is_bounded(allowed: int | None, running: int) -> None:
    """As many bodies run at once as allowed, five where nothing is said, and never more."""
    crowd, items = Crowd(7), list("abcdefg")
    bound: dict[str, Any] = {} if allowed is None else {"concurrency": allowed}
    result, _ = await asyncio.gather(
        run(map_over("items", WORKER, **bound), items, {"worker": crowd.held}),
        run(map_over("items", WORKER, concurrency=7), items, {"worker": crowd.twin}),
    )
    assert crowd.most == running
    assert result.state["results"] == ["done"] * 7


async def test_concurrency_of_one_is_in_order() -> None:
    """With `concurrency=1` the items run one after another."""
    backend = script({"worker": shout})
    await map_over("items", WORKER, concurrency=1).run("hi", backend=backend, state={"items": list("abc")})
    assert [item(request) for request in backend.calls["worker"]] == ["a", "b", "c"]


async def test_structured_answers_are_parsed() -> None:
    """Where the body returns a model, the answers are its fields, not JSON text."""
    result = await run(map_over("items", WORKER @ Size), [1, 2], {"worker": sized})
    assert result.state["results"] == [{"size": 1}, {"size": 2}]


async def test_text_that_looks_like_json_stays_text() -> None:
    """An agent without `returns` gives text, whatever it looks like."""
    result = await run(map_over("items", WORKER), [1], {"worker": '{"size": 1}'})
    assert result.state["results"] == ['{"size": 1}']


async def test_no_items() -> None:
    """An empty list gives an empty list and runs nothing."""
    backend = script()
    result = await map_over("items", WORKER).run("hi", backend=backend, state={"items": []})
    assert result.state["results"] == []
    assert backend.calls["worker"] == []


async def test_a_body_that_says_nothing() -> None:
    """An item without an answer gives `None` in its place."""
    body = Route("_item").eq("a", WORKER)
    result = await run(map_over("items", body), ["a", "b"])
    assert result.state["results"] == ["A", None]


async def test_a_missing_list() -> None:
    """The list must be there; the message names the map and the key."""
    with pytest.raises(
        MissingKeyError, match=r"'map': map_over needs the state key 'items', which is not set"
    ):
        await play(map_over("items", WORKER), config=ANYWAY)


@pytest.mark.parametrize("value", ["abc", 3, {"a": 1}])
async def test_not_a_list(value: object) -> None:
    """Text, numbers and dicts are not taken for lists."""
    with pytest.raises(TransformError, match=f"needs a list at 'items', not {type(value).__name__}"):
        await run(map_over("items", WORKER), value)


async def test_an_error_in_one_item_ends_the_map() -> None:
    """The first error is raised, and the other items' model calls are cancelled."""
    problem = ValueError("item b")
    hang = Hang()

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        if item(request) == "b":
            await hang.started.wait()
            raise problem
        async with aclosing(hang(request)) as pieces:
            async for piece in pieces:
                yield piece

    with raises_from(ValueError, match="item b") as caught:
        await run(map_over("items", WORKER), ["a", "b", "c"], {"worker": answer})
    assert caught.value.__cause__ is problem
    assert hang.ended == ["CancelledError"] * 2


async def test_an_error_leaves_no_results() -> None:
    """A map that failed writes no answers."""
    with raises_from(ValueError, match="no"):
        await run(map_over("items", WORKER), ["a"], {"worker": ValueError("no")}, session_id="map-failed")
    assert "results" not in (await play(Agent("a"), session_id="map-failed")).state


async def test_a_fallback_per_item() -> None:
    """An item whose first alternative fails takes the answer of the second."""

    def picky(request: LlmRequest) -> Any:
        return failing() if item(request) == "b" else "fine"

    body = WORKER // Agent("other")
    result = await run(map_over("items", body), ["a", "b"], {"worker": picky, "other": "rescued"})
    assert result.state["results"] == ["fine", "rescued"]


async def test_a_withdrawn_answer_is_no_answer() -> None:
    """What a failed alternative said before it failed is not an item's answer."""
    body = Pipeline("p", WORKER, Agent("fails")) // S.set(x=1)
    result = await run(map_over("items", body), ["a"], {"fails": RuntimeError("no")})
    assert result.state["results"] == [None]


async def test_the_answer_of_an_item_is_what_was_said_last() -> None:
    """A body of several agents answers with what its last agent said."""
    result = await run(map_over("items", WORKER >> Agent("b")), ["a"], {"b": "last"})
    assert result.state["results"] == ["last"]


async def test_items_do_not_see_each_other() -> None:
    """An item's agents see the conversation before the map and their own item's, nothing of another item."""
    body = WORKER >> Agent("second")
    backend = script({"worker": shout, "start": "before the map"})
    await (Agent("start") >> map_over("items", body)).run(
        "hi", backend=backend, state={"items": ["one", "two"]}
    )
    texts = [seen(request) for request in backend.calls["second"]]
    assert sorted(("ONE" in text, "TWO" in text) for text in texts) == [(False, True), (True, False)]
    assert all("before the map" in text for text in texts)


async def test_items_do_not_see_each_others_state() -> None:
    """A key that one item writes is not there for another."""
    seen_by: list[Any] = []

    def note(state: Any) -> dict[str, Any]:
        seen_by.append(state.get("mark"))
        return {"mark": state["_item"]}

    await run(map_over("items", Pipeline("p", note, WORKER), concurrency=1), ["a", "b"])
    assert seen_by == [None, None]


async def test_other_keys_that_items_write_are_kept() -> None:
    """What the bodies write under other keys is in the state afterwards."""
    body = Route("_item").eq("a", S.set(a=1)).otherwise(S.set(b=2))
    result = await run(map_over("items", body), ["a", "b"])
    assert (result.state["a"], result.state["b"]) == (1, 2)


async def test_a_map_in_a_map() -> None:
    """The inner map works on a list that belongs to the outer item."""
    inner = map_over("row", WORKER, output_key="inner")
    outer = map_over(
        "items",
        S.compute(row=lambda s: s["_row"]) >> inner >> Agent("sum").instruct("{inner}"),
        item_key="_row",
    )
    result = await run(outer, [["a", "b"], ["c"]], {"sum": replies(lambda r: system(r).split("\n")[0])})
    assert result.state["results"] == ["['A', 'B']", "['C']"]


async def test_a_fan_out_in_a_map() -> None:
    """Branches inside an item keep apart from those of other items."""
    body = FanOut("fan", WORKER, Agent("other")) >> Agent("join")
    backend = script({"worker": shout})
    await map_over("items", body).run("hi", backend=backend, state={"items": ["one", "two"]})
    texts = [seen(request) for request in backend.calls["join"]]
    assert sorted(("ONE" in text, "TWO" in text) for text in texts) == [(False, True), (True, False)]


async def test_a_race_in_a_map() -> None:
    """Each item runs its own race."""
    result = await run(map_over("items", race(WORKER, Agent("slow"))), ["a", "b"], {"slow": Hang()})
    assert result.state["results"] == ["A", "B"]


async def test_a_map_in_a_loop() -> None:
    """A map can run again with the list that the loop has changed."""
    grow = S.compute(items=lambda s: [*s["items"], "z"])
    result = await run(Loop(map_over("items", WORKER), grow, max_iterations=2), ["a"])
    assert result.state["results"] == ["A", "Z"]


async def test_a_resumable_map_gives_the_same() -> None:
    """Checkpoints do not change what a map writes."""
    body = gate(lambda s: False) >> WORKER
    result = await run(map_over("items", body), ["a", "b"], config=ExecutionConfig(resumable=True))
    assert result.state["results"] == ["A", "B"]


async def test_the_list_may_change_while_it_waits() -> None:
    """A list that another run makes longer while the map waits does not mix up the answers."""
    expression = map_over("items", gate(lambda s: s["_item"] == "b") >> WORKER)
    backend = script({"worker": shout})
    first = await expression.run("hi", backend=backend, state={"items": ["a", "b"]})
    result = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
    )
    assert result.state["results"] == ["A", "B"]


async def test_tools_in_a_body_run() -> None:
    """An agent of the body may call tools."""
    words: list[str] = []

    def look(word: str) -> str:
        """Look something up."""
        words.append(word)
        return "found"

    def answer(request: LlmRequest) -> Any:
        done = called(request)
        return "done" if done else call_tool("look", word=item(request))

    result = await run(map_over("items", WORKER.tool(look)), ["a", "b"], {"worker": answer})
    assert sorted(words) == ["a", "b"]
    assert result.state["results"] == ["done", "done"]


async def test_the_step_after_reads_the_answers() -> None:
    """The next agent's instruction can use the list of answers."""
    backend = script({"worker": shout})
    await (map_over("items", WORKER) >> Agent("next").instruct("All: {results}")).run(
        "hi", backend=backend, state={"items": ["a", "b"]}
    )
    assert "All: ['A', 'B']" in system(backend.calls["next"][0])


async def test_items_may_be_anything() -> None:
    """Numbers, dicts, lists and `None`-like values are items like any other."""
    values: list[Any] = [0, {"k": [1]}, [2], "", False]
    got: list[Any] = []
    await run(map_over("items", Pipeline("p", lambda s: got.append(s.get("_item"))), concurrency=1), values)
    assert got == values


async def test_leaving_the_stream_cancels_the_items() -> None:
    """Closing the stream cancels every item that runs."""
    hang = Hang("piece")
    expression = map_over("items", WORKER)
    backend = script({"worker": hang})
    async with aclosing(expression.stream("hi", backend=backend, state={"items": [1, 2]})) as events:
        async for _ in events:
            break
    assert len(hang.ended) == 2


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, None])
def test_wrong_concurrency_is_refused(concurrency: Any) -> None:
    """Concurrency is a positive whole number."""
    with pytest.raises(ArgumentError, match="positive whole number"):
        map_over("items", WORKER, concurrency=concurrency)


@pytest.mark.parametrize("options", [{"item_key": ""}, {"output_key": 3}])
def test_wrong_keys_are_refused(options: Any) -> None:
    """Keys are text that is not empty."""
    with pytest.raises(ArgumentError, match="state key as text"):
        map_over("items", WORKER, **options)


def test_one_item_speaks() -> None:
    """The events of an item carry its number in their branch."""
    result = asyncio.run(run(map_over("items", WORKER).named("each"), ["a", "b"]))
    assert sorted(event.branch for event in result.by("worker")) == ["each.0", "each.1"]
    assert speakers(result) == ["worker", "worker"]
