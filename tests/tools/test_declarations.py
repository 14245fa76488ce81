"""The declaration of a function as a tool is the same as in plain ADK."""

from __future__ import annotations
import __future__

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.features import FeatureName, override_feature_enabled
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from pydantic import BaseModel

from adk_fluent import Agent, T
from adk_fluent.backends.adk.compat.private import declaration
from adk_fluent.testing import call_tool, mock_backend

Shapes = dict[str, Callable[..., Any]]
MODEL = "gemini-2.5-flash"
FILE = Path(__file__).with_name("callables.py")
LATER = __future__.annotations.compiler_flag


def _read(flags: int) -> Shapes:
    module = ModuleType(f"callables_{flags}")
    sys.modules[module.__name__] = module  # where dataclasses and pydantic look
    exec(compile(FILE.read_text(), FILE, "exec", flags=flags, dont_inherit=True), vars(module))
    return vars(module)["SHAPES"]


SHAPES = {**_read(0), **{f"{name}, postponed": shape for name, shape in _read(LATER).items()}}
JSON_SCHEMA: Any = getattr(FeatureName, "JSON_SCHEMA_FOR_FUNC_DECL", None)


@pytest.fixture(params=[False, True], ids=["of ADK", "JSON schema"], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test with both forms in which ADK declares functions."""
    override_feature_enabled(JSON_SCHEMA, request.param)
    yield
    from google.adk.features import _feature_registry as registry  # pyright: ignore[reportPrivateUsage]  # no way back

    registry._FEATURE_OVERRIDES.pop(JSON_SCHEMA, None)  # pyright: ignore[reportPrivateUsage]  # likewise


async def _told(agent: Any) -> list[Any]:
    """Name, description and declaration of an agent's tools; `None` for one that ADK cannot declare."""
    return [_of(tool) for tool in await agent.canonical_tools()]


def _of(tool: BaseTool) -> Any:
    try:
        made = declaration(tool)
    except Exception:  # noqa: BLE001  # whatever its parsing raises
        return None
    return tool.name, tool.description, made and made.model_dump(exclude_none=True)


@pytest.mark.parametrize("name", SHAPES)
async def test_a_function_is_declared_as_adk_declares_it(name: str) -> None:
    """Given as it is, as `FunctionTool`, or by `T.fn`: name, description, parameters and result are ADK's."""
    function = SHAPES[name]
    [native] = await _told(LlmAgent(name="a", model=MODEL, tools=[function]))
    ways = [function, FunctionTool(function), T.fn(function)]
    ours = await _told(Agent("a", MODEL).tools(*ways).build())
    assert native is None or ours == [native] * len(ways)


@pytest.mark.parametrize("vertex", ["0", "1"])
async def test_a_result_is_declared_where_adk_declares_it(
    vertex: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declaration of results for Vertex AI is the same, too."""
    monkeypatch.setitem(os.environ, "GOOGLE_GENAI_USE_VERTEXAI", vertex)
    for name in ("documented", "undocumented", "models", "method_undoc"):
        native = await _told(LlmAgent(name="a", model=MODEL, tools=[SHAPES[name]]))
        assert await _told(Agent("a", MODEL).tools(SHAPES[name]).build()) == native


def _lookup(city: str, db: object) -> str:
    return f"{city} in {db}"


class Order(BaseModel):
    """Order something."""

    count: int


class _Base:
    def look(self, city: str) -> str:
        """Look it up."""
        return city


class _Derived(_Base):
    def look(self, city: str) -> str:
        return city.upper()


async def test_a_resource_is_all_that_is_not_declared() -> None:
    """Without documentation, a function with a resource has none; the resource is not declared."""
    backend = mock_backend({"a": [call_tool("_lookup", city="Rome"), "done"]})
    await Agent("a").tools(_lookup).inject(db="shop").run("hi", backend=backend)
    [tool] = list(backend.calls["a"][0].config.tools or ())
    declared = vars(tool)["function_declarations"][0].model_dump(exclude_none=True)
    assert not declared.get("description")
    assert "city" in str(declared)
    assert "db" not in str(declared)
    assert "Rome in shop" in str(backend.calls["a"][1].contents)


async def test_an_undocumented_method_is_declared_as_that_of_its_base() -> None:
    """ADK finds the documentation of an overridden method in the base class."""
    native = await _told(LlmAgent(name="a", model=MODEL, tools=[_Derived().look]))
    assert await _told(Agent("a", MODEL).tools(_Derived().look).build()) == native


@pytest.mark.parametrize("tool", [Order, T.fn(Order)], ids=["as it is", "T.fn"])
async def test_a_class_is_called_like_a_function(tool: Any) -> None:
    """A class that is a tool is called with the arguments that its declaration has."""
    backend = mock_backend({"a": [call_tool("Order", count=3), "done"]})
    await Agent("a").tools(tool).run("hi", backend=backend)
    assert "'count': 3" in str(backend.calls["a"][1].contents)
