"""`P` on ADK's real runner: the instruction that the model receives, with and without a context."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, C, P
from adk_fluent.errors import MissingKeyError, PredicateError
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import ANYWAY


def mocked(responses: Mapping[str, Any] | None = None, **options: Any) -> MockBackend:
    """Scripted models on sessions of their own."""
    options.setdefault("session_service", InMemorySessionService())
    options.setdefault("default", "ok")
    return mock_backend(responses, **options)


def told(backend: MockBackend, agent: str = "a", call: int = 0) -> str:
    """The instruction that an agent's model got, without what ADK adds about its name."""
    config: Any = backend.calls[agent][call].config
    return str(config.system_instruction).partition("\n\nYou are an agent.")[0]


STATIC = P.role("Clerk.") + P.task("Help {name}.")


async def test_a_static_prompt_is_plain_text_to_adk() -> None:
    """All static compiles to text, which ADK fills; the model sees the rendered sections."""
    built: Any = Agent("a").instruct(STATIC).build()
    assert built.instruction == "Clerk.\n\nTask:\nHelp {name}."
    backend = mocked()
    await Agent("a").instruct(STATIC).run("x", backend=backend, state={"name": "Ann"})
    assert told(backend).startswith("Clerk.\n\nTask:\nHelp Ann.")


async def test_a_dynamic_prompt_is_decided_at_each_run() -> None:
    """Any dynamic part compiles to one provider, which sees the state of the run."""
    prompt = STATIC + P.when("vip", P.constraint("Be kind to {name}.")) + P.from_state("note", "gone")
    built: Any = Agent("a").instruct(prompt).build()
    assert callable(built.instruction)
    backend = mocked()
    agent = Agent("a").instruct(prompt)
    await agent.run("x", backend=backend, state={"name": "{vip}", "vip": 1, "note": "{name}"})
    assert told(backend).startswith(
        "Clerk.\n\nTask:\nHelp {vip}.\n\nConstraints:\nBe kind to {vip}.\n\nnote: {name}"
    )
    await agent.run("x", backend=backend, state={"name": "Bob"})
    assert told(backend, call=1).startswith("Clerk.\n\nTask:\nHelp Bob.")
    assert "Constraints" not in told(backend, call=1)


async def test_prompt_and_context_compile_together_in_any_order() -> None:
    """The developer's prompt comes first, the context block after it; neither overwrites the other."""
    for prompt in (STATIC, STATIC + P.from_state("note")):
        for agent in (
            Agent("a").instruct(prompt).reads("topic").context(C.none()),
            Agent("a").reads("topic").context(C.none()).instruct(prompt),
        ):
            backend = mocked()
            await agent.run("x", backend=backend, state={"name": "Ann", "topic": "bills", "note": "n"})
            text = told(backend)
            assert text.startswith("Clerk.\n\nTask:\nHelp Ann.")
            assert text.index("Help Ann.") < text.index("<conversation_context>") < text.index("bills")


async def test_a_missing_key_is_told_as_for_any_instruction() -> None:
    """The error names agent and key, and what would write it, for static and dynamic prompts."""
    for prompt in (STATIC, STATIC + P.from_state("x"), P.when("vip", P.task("{name}"))):
        with pytest.raises(MissingKeyError, match="Agent 'a' needs state key 'name'"):
            await Agent("a").instruct(prompt).run("x", backend=mocked(), state={"vip": 1}, config=ANYWAY)


async def test_a_predicate_that_raises_stops_the_run() -> None:
    """The error names the agent and the predicate of `P.when`, with and without a context beside it."""
    prompt = P.task("t") + P.when(lambda state: state["x"], P.role("r"))
    told = r"^'a' in P\.when: its predicate '<lambda>' needs state key 'x'"
    for agent in (Agent("a"), Agent("a").reads("topic"), Agent("a").context(C.none())):
        with pytest.raises(PredicateError, match=told):
            await agent.instruct(prompt).run("x", backend=mocked(), state={"topic": "tea"})


@pytest.mark.parametrize(
    ("state", "expected", "asked"),
    [({}, "Task:\nHelp.", 0), ({"long": 1}, "short\n\nTask:\nHelp.", 1)],
)
async def test_a_prompt_is_shortened_only_where_a_condition_holds(
    state: dict[str, Any], expected: str, asked: int
) -> None:
    """`P.when(test, prompt | P.compress())` asks a model for it when the test holds, and only then."""
    agent = Agent("a").instruct(P.task("Help.") + P.when("long", P.role("Clerk.") | P.compress(model="tiny")))
    backend = mocked({"a:compress": "short"})
    await agent.run("x", backend=backend, state=state)
    assert told(backend) == expected
    assert len(backend.calls.get("a:compress", [])) == asked


async def test_artifacts_are_filled_in() -> None:
    """`{artifact.name}` in a dynamic prompt is the artifact's text."""
    service = InMemoryArtifactService()
    await service.save_artifact(
        app_name="adk_fluent",
        user_id="user",
        session_id="s",
        filename="cv",
        artifact=types.Part(text="ten years"),
    )
    backend = mocked(artifact_service=service)
    prompt = P.task("Read {artifact.cv} and {artifact.no?}.") + P.from_state("x")
    agent = Agent("a").instruct(prompt)
    await agent.run("x", backend=backend, session_id="s", app_name="adk_fluent", user_id="user")
    assert told(backend).startswith("Task:\nRead ten years and .")


async def test_a_global_instruction_may_be_a_prompt() -> None:
    """The root's global prompt reaches every agent of the tree."""
    for prompt in (P.constraint("Be brief."), P.constraint("Be brief.") + P.from_state("tone")):
        backend = mocked()
        agent = Agent("a").instruct(STATIC).global_instruct(prompt)
        await agent.run("x", backend=backend, state={"name": "Ann", "tone": "warm"})
        assert "Constraints:\nBe brief." in told(backend)
        assert "Help Ann." in told(backend)


async def test_a_model_compresses_the_prompt_once() -> None:
    """The agent's own model is asked; the same text is asked for once; the tokens count on the agent."""
    prompt = (P.task("Help {name} " + "very " * 20) | P.compress(max_tokens=10)) + P.role("Clerk.")
    backend = mocked({"a": "done", "a:compress": "Help Ann."})
    agent = Agent("a").instruct(prompt)
    runs = [await agent.run("x", backend=backend, state={"name": "Ann"}) for _ in range(2)]
    assert [told(backend, call=call) for call in (0, 1)] == ["Help Ann.\n\nClerk."] * 2
    assert len(backend.calls["a:compress"]) == 1
    question = str(backend.calls["a:compress"][0].contents)
    assert "in at most 10 tokens" in question
    assert "Help Ann very" in question
    assert [run.text for run in runs] == ["done", "done"]
    tokens = [sum(event.usage.input_tokens for event in run if event.usage) for run in runs]
    assert tokens[0] > tokens[1] > 0


async def test_a_named_model_adapts_the_prompt_beside_a_context() -> None:
    """A rewritten prompt and a context go together, and the named model is the one that is asked."""
    prompt = P.task("Explain {topic}.") | P.adapt(audience="children", model="small")
    backend = mocked({"a": "done", "small": "Tell it simply."})
    agent = Agent("a").instruct(prompt).reads("topic")
    await agent.run("x", backend=backend, state={"topic": "tax"})
    assert told(backend).startswith("Tell it simply.\n\n<conversation_context>")
    assert "suits this audience: children" in str(backend.calls["small"][0].contents)


async def test_a_failing_helper_model_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """If the helper model fails, the agent receives the prompt unchanged, and the log reports the failure."""
    backend = mocked({"a": "done", "a:compress": ConnectionError("down")})
    with caplog.at_level(logging.WARNING, "adk_fluent"):
        run = await Agent("a").instruct(P.task("Help.") | P.compress()).run("x", backend=backend)
    assert (run.text, told(backend)) == ("done", "Task:\nHelp.")
    assert "P.compress failed (ConnectionError at " in caplog.text


async def test_only_the_prompt_of_a_model_that_asks_leaves_the_conversation_alone() -> None:
    """Asking a model for the prompt changes nothing of what the agent sees of the conversation."""
    backend = mocked({"a": "first", "b": "second", "b:compress": "Short."})
    pipeline = Agent("a") >> Agent("b").instruct(P.task("Long.") | P.compress())
    plain = Agent("a") >> Agent("b").instruct("Short.")
    await pipeline.run("hello", backend=backend)
    await plain.run("hello", backend=backend)
    with_model, without = (backend.calls["b"][call] for call in (0, 1))
    assert with_model.contents == without.contents
    assert told(backend, "b", 0) == told(backend, "b", 1)
