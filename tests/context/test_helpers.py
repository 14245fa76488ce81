from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import BaseModel, PrivateAttr

from adk_fluent import Agent, C, Loop, P
from adk_fluent.backends.events import Usage
from adk_fluent.config import ExecutionConfig
from adk_fluent.context.entries import TAG, estimate_tokens
from adk_fluent.context.spec import Context
from adk_fluent.errors import MissingKeyError, MockError
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.context.talk import ask, contents, everything, last, system

SAYS = {"writer": "W-TEXT", "critic": "C-TEXT", "me": "M-TEXT"}


class Order(BaseModel):
    """An order of a customer."""

    item: str
    count: int = 1


def block(*lines: str) -> str:
    """A context block of these lines."""
    return "\n".join([f"<{TAG}>", *lines, f"</{TAG}>"])


def pipeline(spec: Context) -> Any:
    """Two agents before the one whose context is looked at."""
    return Agent("writer") >> Agent("critic") >> Agent("me").context(spec)


def backend(**responses: Any) -> MockBackend:
    """A mock backend with a separate session service."""
    return mock_backend(
        {**SAYS, **{key.replace("__", ":"): value for key, value in responses.items()}},
        session_service=InMemorySessionService(),
    )


def question(request: LlmRequest) -> str:
    """The request to a helper model."""
    ((_, text),) = contents(request)
    return text


# --- what each asks and gives ---------------------------------------------------------------------


async def test_summarize_replaces_the_selection() -> None:
    """The model is asked for a summary of what is selected, and the agent sees it in its place."""
    mock = backend(me__summarize="SHORT")
    await pipeline(C.window(1) | C.summarize()).run("GO", backend=mock)
    (asked,) = mock.calls["me:summarize"]
    assert "[writer]: W-TEXT\n[critic]: C-TEXT" in question(asked)
    (request,) = mock.calls["me"]
    assert system(request) == block("[summary]: SHORT")
    assert contents(request) == [("user", "GO")]


async def test_summarize_as_contents() -> None:
    """As messages, the summary is one of them, where the first of what it stands for was."""
    mock = backend(me__summarize="SHORT")
    await pipeline((C.window(1) | C.summarize()).as_contents()).run("GO", backend=mock)
    assert contents(mock.calls["me"][0]) == [("user", "GO"), ("user", "[summary]: SHORT")]


async def test_summarize_in_other_words() -> None:
    """A prompt of one's own replaces the usual words."""
    mock = backend(me__summarize="SHORT")
    await pipeline(C.summarize(prompt="Haiku, please.")).run("GO", backend=mock)
    assert question(mock.calls["me:summarize"][0]).startswith("Haiku, please.\n\n[writer]")


@pytest.mark.parametrize(
    ("scope", "lines"),
    [
        ("all", ["[summary]: SHORT"]),
        ("earlier", ["[summary]: SHORT", "[writer]: W-TEXT", "[critic]: C-TEXT"]),
    ],
)
async def test_the_scope_of_a_summary(scope: Any, lines: list[str]) -> None:
    """All of the selection is summarized, or only what is older than the current turn."""
    mock = backend(me__summarize="SHORT")
    async with pipeline(C.summarize(scope=scope)).session(backend=mock) as chat:
        await chat.send("FIRST")
        await chat.send("SECOND")
    assert system(mock.calls["me"][-1]) == block(*lines)
    assert "FIRST" in question(mock.calls["me:summarize"][-1])


async def test_a_summary_of_tool_use_only() -> None:
    """With `scope="tools"` calls and results are summarized, and texts stay."""

    def lookup(city: str) -> str:
        """Look something up."""
        return f"sunny in {city}"

    mock = backend(writer=[call_tool("lookup", city="Rome"), "W-TEXT"], me__summarize="SHORT")
    spec = C.summarize(scope="tools")
    await (Agent("writer").tool(lookup) >> Agent("me").context(spec)).run("GO", backend=mock)
    assert "sunny in Rome" in question(mock.calls["me:summarize"][0])
    assert system(mock.calls["me"][0]) == block("[summary]: SHORT", "[writer]: W-TEXT")


async def test_an_empty_selection_asks_no_model() -> None:
    """If nothing is selected, no model is asked."""
    mock = backend(me__summarize="SHORT")
    await Agent("me").context(C.summarize()).run("GO", backend=mock)
    assert mock.calls.get("me:summarize", []) == []
    assert system(mock.calls["me"][0]) == ""


async def test_relevant_by_a_model() -> None:
    """The model gets the question and the numbered texts, and its choice is seen in order."""
    mock = backend(me__relevant="[2, 1]", other="O-TEXT")
    expression = (
        Agent("writer") >> Agent("critic") >> Agent("other") >> Agent("me").context(C.relevant(top_k=2))
    )
    await expression.run("WHICH?", backend=mock)
    asked = question(mock.calls["me:relevant"][0])
    assert "Question: WHICH?\n\n1. [writer]: W-TEXT\n2. [critic]: C-TEXT\n3. [other]: O-TEXT" in asked
    assert "at most 2 numbers" in asked
    assert system(mock.calls["me"][0]) == block("[writer]: W-TEXT", "[critic]: C-TEXT")


async def test_relevant_to_another_question() -> None:
    """The question may be given, or stand in state."""
    mock = backend(me__relevant="1")
    await pipeline(C.relevant(query="WHY?", top_k=1)).run("GO", backend=mock)
    assert "Question: WHY?" in question(mock.calls["me:relevant"][0])
    await pipeline(C.relevant(query_key="topic", top_k=1)).run("GO", backend=mock, state={"topic": "HOW?"})
    assert "Question: HOW?" in question(mock.calls["me:relevant"][1])


async def test_relevant_by_a_function() -> None:
    """A function scores each text against the question; no model is asked."""
    scored: list[tuple[str, str]] = []

    def score(query: str, text: str) -> float:
        scored.append((query, text))
        return float(text.startswith("C"))

    mock = backend()
    await pipeline(C.relevant(scorer=score, top_k=1)).run("GO", backend=mock)
    assert scored == [("GO", "W-TEXT"), ("GO", "C-TEXT")]
    assert system(mock.calls["me"][0]) == block("[critic]: C-TEXT")


@pytest.mark.parametrize("is_async", [False, True])
async def test_relevant_by_an_embedding_model(is_async: bool) -> None:
    """An object with `embed` gives a vector per text; the nearest to the question are seen."""
    vectors = {"GO": [1.0, 0.0], "W-TEXT": [0.1, 1.0], "C-TEXT": [2.0, 0.1]}

    class Embedder:
        def embed(self, texts: Sequence[str]) -> Any:
            found = [vectors[text] for text in texts]

            async def later() -> list[list[float]]:
                return found

            return later() if is_async else found

    mock = backend()
    scorer: Any = Embedder()
    await pipeline(C.relevant(scorer=scorer, top_k=1)).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[critic]: C-TEXT")


async def test_an_embedding_model_by_name_can_be_scripted() -> None:
    """Under the mock backend a named embedding model answers with vectors in JSON."""
    mock = backend(embedder=json.dumps([[1, 0], [1, 0.1], [0, 1]]))
    await pipeline(C.relevant(scorer="embedder", top_k=1)).run("GO", backend=mock)
    assert json.loads(question(mock.calls["embedder"][0])) == ["GO", "W-TEXT", "C-TEXT"]
    assert system(mock.calls["me"][0]) == block("[writer]: W-TEXT")


async def test_extract() -> None:
    """The data that is found stands for what it was found in, and is written to state."""
    mock = backend(me__extract={"item": "tea", "count": 2})
    me = Agent("me").instruct("Confirm {order}.").context(C.extract(Order, into="order"))
    result = await (Agent("writer") >> me).run("Two teas", backend=mock)
    assert system(mock.calls["me"][0]) == (
        "Confirm {'item': 'tea', 'count': 2}.\n\n" + block('[order]: {"item": "tea", "count": 2}')
    )
    assert result.state["order"] == {"item": "tea", "count": 2}
    asked = mock.calls["me:extract"][0]
    assert '"count"' in question(asked)
    assert asked.config.response_schema is not None


async def test_an_answer_in_a_fence_is_understood() -> None:
    """JSON in a Markdown fence, as models like to write it, is read."""
    mock = backend(me__extract='Here:\n```json\n{"item": "tea"}\n```')
    await pipeline(C.extract(Order, into="order")).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block('[order]: {"item": "tea", "count": 1}')


async def test_distill() -> None:
    """The facts that are found stand for what they were found in, and are written to state."""
    mock = backend(me__distill="A is B.\nC is D.\n")
    result = await pipeline(C.distill(into="facts")).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[facts]: A is B.\nC is D.")
    assert result.state["facts"] == "A is B.\nC is D."


async def test_extracted_values_reach_later_agents() -> None:
    """Later steps read a key that a context writes; a `temp:` key only in the same run."""
    mock = backend(me__distill="FACTS")
    for key in ("facts", "temp:facts"):
        found = Agent("me").context(C.distill(into=key))
        result = await (Agent("writer") >> found >> Agent("critic").reads(key)).run("GO", backend=mock)
        assert system(mock.calls["critic"][-1]) == block(f"[{key}]: FACTS")
        assert ("facts" in result.state) is (key == "facts")


async def test_rolling_with_a_summary() -> None:
    """The last turns are seen as they are, and all before them as one summary."""
    mock = backend(me__rolling="SHORT")
    async with pipeline(C.rolling(1, summarize=True)).session(backend=mock) as chat:
        for prompt in ("ONE", "TWO", "THREE"):
            await chat.send(prompt)
    assert system(mock.calls["me"][-1]) == block("[summary]: SHORT", "[writer]: W-TEXT", "[critic]: C-TEXT")
    asked = question(mock.calls["me:rolling"][-1])
    assert ("ONE" in asked, "TWO" in asked, "THREE" in asked) == (True, True, False)


@pytest.mark.parametrize("name", ["budget", "manus_cascade"])
async def test_a_budget_kept_by_a_summary(name: str) -> None:
    """A selection that is too long is summarized from its older end, and never exceeds the budget."""
    said = {f"a{i}": f"A{i} " + "word " * 12 for i in range(6)}
    spec = C.budget(60, overflow="summarize") if name == "budget" else C.manus_cascade(60)
    first, *others = [Agent(agent) for agent in said]
    expression: Any = first
    for agent in others:
        expression >>= agent
    for answer in ("SHORT", "LONG " * 999):
        mock = mock_backend({**said, "me": "M", f"me:{name}": answer})
        await (expression >> Agent("me").context(spec)).run("GO", backend=mock)
        lines = system(mock.calls["me"][0]).removeprefix(f"<{TAG}>\n").removesuffix(f"\n</{TAG}>")
        assert estimate_tokens(lines) <= 60
        if answer == "SHORT":
            assert lines.startswith("[summary]: SHORT\n")
            assert "A5" in lines
        assert "A0" in question(mock.calls[f"me:{name}"][0])


async def test_manus_cascade_stops_at_the_first_that_fits() -> None:
    """Compacting and dropping repetition come first; a model is asked only when that is not enough."""
    mock = backend(me__manus_cascade="SHORT", writer="C-TEXT")
    await pipeline(C.manus_cascade(9)).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[writer]: C-TEXT")
    assert mock.calls.get("me:manus_cascade", []) == []


async def test_the_text_of_a_context_can_be_piped_on() -> None:
    """The answer of a helper model is a selection like any other."""
    mock = backend(me__summarize="a SECRET summary")
    await pipeline(C.summarize() | C.redact("SECRET")).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[summary]: a [REDACTED] summary")


# --- which model ----------------------------------------------------------------------------------


async def test_a_named_model_is_scripted_by_its_name() -> None:
    """A model that the spec names is found under its name, unless the agent's own entry is there."""
    mock = backend(tiny="BY NAME")
    await pipeline(C.summarize(model="tiny")).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[summary]: BY NAME")
    mock = backend(tiny="BY NAME", me__summarize="BY AGENT")
    await pipeline(C.summarize(model="tiny")).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[summary]: BY AGENT")


async def test_a_helper_without_a_script_is_refused() -> None:
    """Under the mock backend no real model is called: what is missing is named."""
    with pytest.raises(MockError, match="No scripted response for agent 'me:summarize'"):
        await pipeline(C.summarize()).run("GO", backend=backend())


class Counting(BaseLlm):
    """A model that says what it was asked, in few words."""

    _asked: list[LlmRequest] = PrivateAttr(default_factory=list[LlmRequest])

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer with the number of the call."""
        self._asked.append(llm_request)
        content = types.Content(role="model", parts=[types.Part(text=f"{self.model}-{len(self._asked)}")])
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=2)
        yield LlmResponse(content=content, usage_metadata=usage)


async def test_without_a_name_the_agents_own_model_is_asked() -> None:
    """On real models, a spec without one asks the agent's own, and one with a `BaseLlm` that."""
    own, helper = Counting(model="own"), Counting(model="helper")
    writer = Agent("writer", Counting(model="writer"))
    await (writer >> Agent("me", own).context(C.summarize())).run("GO")
    assert [len(own._asked), len(helper._asked)] == [2, 0]  # pyright: ignore[reportPrivateUsage]  # of this file
    result = await (writer >> Agent("me", own).context(C.summarize(model=helper))).run("GO")
    assert len(helper._asked) == 1  # pyright: ignore[reportPrivateUsage]  # of this file
    assert "[summary]: helper-1" in system(own._asked[-1])  # pyright: ignore[reportPrivateUsage]  # of this file
    assert result.usage["me", "helper"] == Usage(1, 7, 2)


# --- cost, cache, failure -------------------------------------------------------------------------


async def test_tokens_of_a_helper_count_for_the_agent() -> None:
    """The tokens of a helper are in the usage of the run, under the agent and the helper's model."""
    mock = backend(me__summarize="SHORT")
    result = await pipeline(C.summarize()).run("GO", backend=mock)
    usage = result.usage["me", "mock-me:summarize"]
    assert (usage.calls, usage.output_tokens) == (1, 1)
    assert usage.input_tokens > 20
    (event,) = [e for e in result if e.metadata.get("adk_fluent.helper")]
    assert (event.author, event.metadata["adk_fluent.helper"], event.content) == ("me", "summarize", None)
    assert result.text == "M-TEXT"


async def test_an_answer_is_kept_for_the_same_content() -> None:
    """The same content is asked about once: within a turn, and in later runs of the same agent."""

    def lookup(city: str) -> str:
        """Look something up."""
        return f"sunny in {city}"

    me = Agent("me").tool(lookup).context(C.exclude_agents("me") | C.select(author="writer") | C.summarize())
    mock = backend(me=[call_tool("lookup", city="Rome"), "M"], me__summarize=["ONE", "TWO"])
    expression = Agent("writer") >> me
    result = await expression.run("GO", backend=mock)
    assert [system(request) for request in mock.calls["me"]] == [block("[summary]: ONE")] * 2
    assert result.usage["me", "mock-me:summarize"].calls == 1
    result = await expression.run("GO", backend=mock)
    assert len(mock.calls["me:summarize"]) == 1
    assert ("me", "mock-me:summarize") not in result.usage


async def test_changed_content_asks_the_model_again() -> None:
    """If the content changes, the model is asked again."""
    me = Agent("me").context(C.select(author="writer") | C.summarize())
    mock = backend(writer=["W-1", "W-2"], me__summarize=["ONE", "TWO"])
    backend_calls = await ask(
        Loop(Agent("writer") >> me, max_iterations=1), "GO", responses=SAYS | {"me:summarize": "X"}
    )
    assert len(backend_calls.calls["me:summarize"]) == 1
    async with (Agent("writer") >> me).session(backend=mock) as chat:
        await chat.send("A")
        await chat.send("B")
    assert [system(r) for r in mock.calls["me"]] == [block("[summary]: ONE"), block("[summary]: TWO")]


WRITER = C.select(author="writer")
KEPT_APART: dict[str, tuple[Callable[[str], Context], Any]] = {
    "summarize": (lambda model: WRITER | C.summarize(model=model), "in short"),
    "budget": (lambda model: C.budget(5, overflow="summarize", model=model), "in short"),
    "relevant": (lambda model: C.relevant(top_k=1, model=model), "1"),
    "extract": (lambda model: C.extract(Order, into="found", model=model), {"item": "tea"}),
    "distill": (lambda model: C.distill(into="found", model=model), "a fact"),
    "embedding": (lambda model: C.relevant(top_k=1, scorer=model), "[[1, 0], [1, 0], [0, 1]]"),
}


@pytest.mark.parametrize(("spec", "says"), KEPT_APART.values(), ids=KEPT_APART)
async def test_another_model_is_asked_again(spec: Callable[[str], Context], says: Any) -> None:
    """The answer of one model is never given for that of another, and each is kept for its own."""
    me = Agent("me").context(C.when("big", spec("large")) + C.when(lambda s: "big" not in s, spec("small")))
    expression = Agent("writer") >> Agent("critic") >> me
    mock = backend(large=says, small=says)
    for state in ({}, {"big": True}) * 2:
        await expression.run("GO", backend=mock, state=state)
    assert [len(mock.calls[name]) for name in ("small", "large")] == [1, 1]


@pytest.mark.parametrize(("spec", "says"), KEPT_APART.values(), ids=KEPT_APART)
async def test_changed_text_asks_the_model_again(spec: Callable[[str], Context], says: Any) -> None:
    """An answer stands for the content it was given for: other content is asked about, the same is not."""
    expression = Agent("writer") >> Agent("critic") >> Agent("me").context(spec("small"))
    mock = backend(writer=["W-1", "W-2", "W-1", "W-2"], small=says)
    for _ in range(4):
        await expression.run("GO", backend=mock)
    asked = [question(request) for request in mock.calls["small"]]
    assert [text for text in asked if "W-1" in text] == asked[:1]
    assert [text for text in asked if "W-2" in text] == asked[1:]
    assert len(asked) == 2


async def test_as_many_answers_are_kept_as_are_used_often() -> None:
    """An agent keeps 256 answers: of one more, the one that was not used for longest is asked about again."""
    me = Agent("me").instruct(P.task("Help {n}.") | P.compress())
    mock = backend(me__compress="Help.")

    async def asked(n: int) -> bool:
        result = await me.run("GO", backend=mock, state={"n": n})
        return any(event.metadata.get("adk_fluent.helper") for event in result)

    assert [await asked(n) for n in range(256)] == [True] * 256
    assert not await asked(0)
    assert await asked(256)
    assert [await asked(n) for n in (0, 2, 256, 1)] == [False, False, False, True]


FAILURES = [
    (RuntimeError("down"), "RuntimeError at "),
    (LlmResponse(error_code="SAFETY", error_message="no"), "it gave the error SAFETY"),
    ("   ", "the answer is empty"),
]


@pytest.mark.parametrize(("failure", "reason"), FAILURES, ids=["raises", "error", "empty"])
@pytest.mark.parametrize(
    "spec",
    [C.summarize(), C.relevant(top_k=1), C.extract(Order, into="x"), C.distill(into="x")],
    ids=lambda spec: spec.op,
)
async def test_a_failing_helper_leaves_the_selection(
    spec: Context, failure: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After a helper's failure, a warning names agent and operation, and the agent sees the selection."""
    mock = mock_backend({**SAYS, f"me:{spec.op}": failure}, session_service=InMemorySessionService())
    with caplog.at_level(logging.WARNING, "adk_fluent.context"):
        result = await pipeline(spec).run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[writer]: W-TEXT", "[critic]: C-TEXT")
    assert "x" not in result.state
    (warned,) = [r.getMessage() for r in caplog.records if r.name == "adk_fluent.context"]
    assert warned.startswith(f"Agent 'me': the helper model of C.{spec.op} failed ({reason}")


@pytest.mark.parametrize(
    ("spec", "answer", "reason"),
    [
        (C.extract(Order, into="x"), '{"count": 2}', "the answer does not fit Order: missing"),
        (C.extract(Order, into="x"), "tea", "the answer does not fit Order"),
        (C.relevant(top_k=1), "none of them", "names no message"),
        (C.relevant(top_k=1, scorer="embedder"), "[[1], [2]]", "gave 2 vectors for 3 texts"),
    ],
)
async def test_an_answer_that_cannot_be_used(
    spec: Context, answer: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer that makes no sense is a failure too, and is not kept."""
    mock = mock_backend({**SAYS, f"me:{spec.op}": answer}, session_service=InMemorySessionService())
    expression = pipeline(spec)
    with caplog.at_level(logging.WARNING, "adk_fluent.context"):
        await expression.run("GO", backend=mock)
        await expression.run("GO", backend=mock)
    assert system(mock.calls["me"][0]) == block("[writer]: W-TEXT", "[critic]: C-TEXT")
    assert len(mock.calls[f"me:{spec.op}"]) == 2
    assert reason in caplog.text


async def test_a_key_that_was_not_found_is_missing() -> None:
    """An instruction that needs what a failed helper should have found says which key is missing."""
    mock = backend(me__distill=RuntimeError("down"))
    me = Agent("me").instruct("Facts: {facts}").context(C.distill(into="facts"))
    with pytest.raises(MissingKeyError, match="'me' needs state key 'facts'"):
        await (Agent("writer") >> me).run("GO", backend=mock)


async def test_helpers_count_as_model_calls() -> None:
    """A helper's call counts towards the run's limit."""
    mock = backend(me__summarize="SHORT")
    with pytest.raises(Exception, match="limit of `3`"):
        await pipeline(C.summarize()).run("GO", backend=mock, config=ExecutionConfig(max_llm_calls=3))


async def test_tokens_of_a_helper_count_when_the_agent_fails() -> None:
    """The tokens of a helper count even if the agent's own model then fails and another takes over."""
    mock = backend(me=RuntimeError("down"), critic="C", me__summarize="SHORT")
    expression = Agent("writer") >> (Agent("me").context(C.summarize()) // Agent("critic"))
    result = await expression.run("GO", backend=mock)
    assert result.text == "C"
    assert result.usage["me", "mock-me:summarize"].calls == 1


async def test_helpers_work_beside_the_default_conversation() -> None:
    """A condition that leaves the default in place asks no model."""
    spec = C.when(lambda s: False, C.summarize())
    request = await last(pipeline(spec), "me", "GO", responses=SAYS)
    assert "W-TEXT" in everything(request)
    assert system(request) == ""
