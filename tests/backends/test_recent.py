"""What is kept of a compiled expression: as long as it is of use, and not more than that."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, C, S
from adk_fluent.backends.adk.running.backend import ADKBackend, Compiled, default_backend
from adk_fluent.backends.recent import EXPRESSIONS, FORMS, Recent, forms_of
from adk_fluent.config import ExecutionConfig
from adk_fluent.expr.base import Expr
from adk_fluent.expr.expression_run import Run
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import PlainLlm, reply, script

A, B = Agent("a"), Agent("b")
EXPRESSION = (A.writes("x") | S.set(y=1)) >> B.context(C.summarize(model="small"))


def compiled(expression: Expr[Any], backend: ADKBackend, **options: Any) -> Compiled:
    """What a run of the expression runs."""
    return Run(expression, {"backend": backend, **options}).compiled


def alive(references: list[weakref.ref[Any]]) -> int:
    """How many of these still exist."""
    gc.collect()
    return sum(reference() is not None for reference in references)


async def test_an_expression_keeps_no_backend_alive() -> None:
    """A backend is gone when nobody holds it, whatever was run on it, though the expression lives on."""
    references: list[weakref.ref[MockBackend]] = []
    for _ in range(3):
        backend = mock_backend(default="ok")
        await EXPRESSION.run("hi", backend=backend)
        assert [event async for event in EXPRESSION.stream("hi", backend=backend)]
        assert backend.calls
        references.append(weakref.ref(backend))
        del backend
    assert alive(references) == 0


async def test_a_backend_keeps_no_expression_alive() -> None:
    """An expression is gone, with all that was made of it, when nobody holds it, though the backend lives."""

    async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield reply("ok")

    references: list[weakref.ref[Any]] = []
    for backend in (script(), default_backend()):
        expression = Agent("a", PlainLlm.of(answer)) >> S.counter("n")
        assert (await expression.run("hi", backend=backend)).text == "ok"
        references += [weakref.ref(expression), weakref.ref(compiled(expression, backend))]
        del expression
    assert alive(references) == 0


def test_not_more_than_some_configurations_are_kept() -> None:
    """An expression that is run under ever new configurations does not keep all of them."""
    expression, backend = A >> B, script()
    made = [
        weakref.ref(compiled(expression, backend, config=ExecutionConfig(custom_metadata={"n": n})))
        for n in range(3 * FORMS)
    ]
    assert alive(made) == FORMS
    assert made[-1]() is compiled(
        expression, backend, config=ExecutionConfig(custom_metadata={"n": 3 * FORMS - 1})
    )


async def test_not_more_than_some_services_are_kept() -> None:
    """Nor does one that is run on ever new services."""
    backend = script()
    services: list[weakref.ref[InMemorySessionService]] = []
    for _ in range(2 * FORMS):
        service = InMemorySessionService()
        await A.run("hi", backend=backend, session_service=service)
        services.append(weakref.ref(service))
        del service
    assert alive(services) <= FORMS


def test_not_more_than_some_expressions_are_kept() -> None:
    """A backend does not keep what it made of ever so many expressions, though they live."""
    backend = script()
    expressions = [Agent(f"a{n}") for n in range(EXPRESSIONS + 20)]
    made = [weakref.ref(compiled(expression, backend)) for expression in expressions]
    assert alive(made) == EXPRESSIONS
    assert made[-1]() is compiled(expressions[-1], backend)


def test_what_was_asked_for_last_is_kept() -> None:
    """The one that was asked for longest ago goes first."""
    recent, made = Recent[str](2), list[str]()

    def make(key: str) -> str:
        made.append(key)
        return key

    for key in ("a", "b", "a", "c", "a", "b"):
        assert recent.get(key, lambda key=key: make(key)) == key
    assert made == ["a", "b", "c", "b"]


def test_a_backend_that_cannot_keep_anything() -> None:
    """For a backend whose objects have no room for more, everything is made again."""

    class Bare:
        __slots__ = ()

    bare = Bare()
    assert forms_of(A, bare).get(1, object) is not forms_of(A, bare).get(1, object)


async def test_an_expression_in_the_place_of_a_former_one() -> None:
    """What was made of an expression that is gone is never taken for another's, wherever that one lies."""
    backend = mock_backend({"a": "a", "b": "b"})
    for _ in range(50):
        assert (await Agent("a").run("hi", backend=backend)).text == "a"
        assert (await Agent("b").run("hi", backend=backend)).text == "b"
