"""Refusals of terminals before a run, and errors as users see them."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

import adk_fluent
from adk_fluent import Agent, FanOut, Loop, Pipeline, errors
from adk_fluent.config import CompactionConfig, ExecutionConfig
from adk_fluent.distributed import TransportConfig
from adk_fluent.errors import ADKFluentError, ArgumentError, EventLoopError, MissingKeyError
from adk_fluent.expr.options import SERVICES, RunOptions
from adk_fluent.ir import SequenceNode
from adk_fluent.ir.frozen import Frozen
from adk_fluent.spelling import did_you_mean
from adk_fluent.testing import mock_backend

a = Agent("a", "some-model")
untyped: Any = a
"""An agent as a caller without a type checker sees it."""


@pytest.mark.parametrize("option", ["prompts", "userid", "sesion_id", "stat"])
@pytest.mark.parametrize("terminal", ["run", "ask_async", "stream", "session"])
async def test_unknown_options_are_refused(terminal: str, option: str) -> None:
    """A misspelt option of a run is named, with the nearest that exists."""
    near = {"userid": "user_id", "sesion_id": "session_id", "stat": "state"}.get(option)
    prompt = () if terminal == "session" else ("hi",)
    with pytest.raises(ArgumentError) as caught:
        await getattr(untyped, terminal)(*prompt, **{option: "x"})
    hint = f" Did you mean {near!r}?" if near else ""
    assert str(caught.value) == f"A run has no option {option!r}.{hint}"


async def test_ask_inside_an_event_loop_is_refused() -> None:
    """A blocking call where it would block everything names the call to use instead."""
    with pytest.raises(EventLoopError) as caught:
        a.ask("hi", backend=mock_backend({"a": "hello"}))
    assert str(caught.value) == (
        "ask() cannot wait inside a running event loop; write `await expr.ask_async(...)`."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"prompts": "one text"},
            "map() takes a list of prompts and a positive whole number as concurrency.",
        ),
        (
            {"prompts": ["x"], "concurrency": 0},
            "map() takes a list of prompts and a positive whole number as concurrency.",
        ),
        (
            {"prompts": ["x"], "session_id": "s"},
            "map() runs each prompt in a new session; leave session_id out.",
        ),
    ],
)
async def test_wrong_arguments_of_map(arguments: dict[str, Any], message: str) -> None:
    """`map` wants several prompts, at least one at a time, each in its own session."""
    with pytest.raises(ArgumentError) as caught:
        await untyped.map(**arguments, backend=mock_backend({"a": "hello"}))
    assert str(caught.value) == message


PROMPT = (
    "A prompt is text, a google.genai Content, or a list of texts and Parts, not {}. For an image write "
    "Part.from_bytes(data=..., mime_type='image/png')."
)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "The prompt is empty; give text, or at least one part."),
        ([], "The prompt is empty; give text, or at least one part."),
        (None, PROMPT.format("NoneType")),
        (5, PROMPT.format("int")),
        (b"png", PROMPT.format("bytes")),
        (["look", b"png"], PROMPT.format("bytes")),
        (a, PROMPT.format("Agent")),
    ],
    ids=["empty", "no parts", "None", "int", "bytes", "bytes in a list", "agent"],
)
async def test_wrong_prompts(prompt: Any, message: str) -> None:
    """A prompt that is not a message is refused before a model is called."""
    backend = mock_backend({"a": "hello"})
    with pytest.raises(ArgumentError) as caught:
        await untyped.run(prompt, backend=backend)
    assert str(caught.value) == message
    assert not backend.calls.get("a")


CONFIGS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ExecutionConfig(app_name="my app"),
        "ExecutionConfig(app_name='my app'): ADK requires a Python identifier other than 'user'.",
    ),
    (
        lambda: ExecutionConfig(app_name="user"),
        "ExecutionConfig(app_name='user'): ADK requires a Python identifier other than 'user'.",
    ),
    (
        lambda: ExecutionConfig(timeout_seconds=0),
        "ExecutionConfig(timeout_seconds=0): it is a positive number.",
    ),
    (
        lambda: ExecutionConfig(timeout_seconds=-2.5),
        "ExecutionConfig(timeout_seconds=-2.5): it is a positive number.",
    ),
    (
        lambda: CompactionConfig(token_threshold=5),
        "CompactionConfig: give token_threshold and event_retention_size together.",
    ),
]


@pytest.mark.parametrize(("make", "message"), CONFIGS)
def test_wrong_configurations(make: Callable[[], object], message: str) -> None:
    """A configuration that ADK would refuse is refused where it is written."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message


# --- errors ---------------------------------------------------------------------------------------

RAISED = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
]


@pytest.mark.parametrize("cls", RAISED, ids=lambda cls: cls.__name__)
def test_every_error_is_of_the_family(cls: type[Exception]) -> None:
    """Catching the one base catches all, each class says what it is for, and messages print as they are."""
    assert issubclass(cls, ADKFluentError)
    assert len(cls.__doc__ or "") > 20
    assert str(cls("What was wrong, and what to do.")) == "What was wrong, and what to do."
    assert str(cls()) == ""


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [(ArgumentError, TypeError), (MissingKeyError, KeyError), (errors.AgentTimeoutError, TimeoutError)],
)
def test_errors_that_have_a_counterpart_are_one(cls: type[Exception], builtin: type[Exception]) -> None:
    """Generic handlers see type errors, key errors and timeouts as what they are."""
    assert issubclass(cls, builtin)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("instuct", ["instruct", "model"], " Did you mean 'instruct'?"),
        ("zzz", ["instruct"], ""),
        ("x", [], ""),
        ("state", iter(["stat"]), " Did you mean 'stat'?"),
    ],
    ids=["near", "far", "none", "iterator"],
)
def test_did_you_mean(word: str, known: Any, hint: str) -> None:
    """Only a word that is near is suggested."""
    assert did_you_mean(word, known) == hint


def test_the_package_names_what_it_has() -> None:
    """Every public name can be imported, `dir` lists them, and another name is refused with the list."""
    names = dir(adk_fluent)
    assert {"Agent", "S", "__version__"} < set(names)
    for name in names:
        assert getattr(adk_fluent, name) is not None
    assert names == vars(adk_fluent)["__all__"]
    with pytest.raises(AttributeError, match=r"^adk_fluent has no 'Agnet'\. Did you mean 'Agent'"):
        attrgetter("Agnet")(adk_fluent)


@pytest.mark.parametrize(
    "name", ["run", "ask", "ask_async", "stream", "map", "session", "live", "resume", "rewind", "to_runner"]
)
def test_help_lists_each_option(name: str) -> None:
    """The signature has each option with its type, the docstring its meaning, once."""
    shown = inspect.signature(getattr(Agent, name))
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in shown.parameters.values()}
    options = {each for each in (*SERVICES, *RunOptions.__annotations__) if each in shown.parameters}
    assert options >= {*SERVICES, "middleware"}
    assert {str(shown.parameters[each].annotation) for each in ("session_service", "artifact_service")} == {
        "BaseSessionService | None",
        "BaseArtifactService | None",
    }
    text = inspect.getdoc(getattr(Agent, name)) or ""
    assert {each: text.count(f"\n    {each}: ") for each in options} == dict.fromkeys(options, 1)
    assert "Options`" not in text


@pytest.mark.parametrize(
    ("cls", "shown"),
    [
        (Agent, "(name: 'str', model: 'str | BaseLlm | None' = None) -> 'None'"),
        (Pipeline, "(*steps: 'object', name: 'str | None' = None) -> 'None'"),
        (Loop, "(*steps: 'object', max_iterations: 'int' = 10, name: 'str | None' = None) -> 'None'"),
        (FanOut, "(*branches: 'object', name: 'str | None' = None, merge: 'Merge' = 'wait_all') -> 'None'"),
        (TransportConfig, "(type: \"Literal['queue']\" = 'queue', endpoint: 'str | None' = None)"),
        (SequenceNode, "(*, name: 'str' = '', annotations: 'Annotations' = Annotations(), "),
    ],
)
def test_help_shows_what_a_class_takes(cls: type, shown: str) -> None:
    """Help on a class shows its real arguments with types, and not those that exist only to refuse."""
    assert str(inspect.signature(cls)).startswith(shown)
    title = pydoc.plain(pydoc.render_doc(cls))
    assert f"{cls.__name__}{shown}" in title


def test_a_class_with_a_constructor_shows_its_own_signature() -> None:
    """Instances of such classes have no signature, which would make them look like functions."""

    class Own(Frozen):
        def __init__(self, x: int) -> None: ...

    assert list(inspect.signature(Own).parameters) == ["x"]
    assert not hasattr(SequenceNode(), "__signature__")
