"""What stands in for the bodies of tools: a run calls them, and none of the user's code in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, Final, cast

from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent.backends.adk.api import BEHIND
from adk_fluent.backends.mock import MockBackend
from adk_fluent.backends.stand_ins import smallest
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import AgentNode, agents_in
from adk_fluent.ir.tools import ends_loops, escalates, loop_enders, pauses, tool_name

_OURS: Final = ("google.", "adk_fluent.")
_BODY: Final = "run_async"


class StandIns(BasePlugin):
    """Replaces what a tool of the user's does by a note of its call; what it declares stays.

    Callbacks around the call run as ever. ADK's own tools, such as `exit_loop` or one around an agent, do
    what they do.

    Attributes:
        called: agent, tool, arguments and what is behind it, of each call, in order: the function, or the
            code of one that another function made.
    """

    def __init__(self) -> None:
        super().__init__(name="adk_fluent_stand_ins")
        self.called: list[tuple[str, str, Mapping[str, Any], object]] = []
        self._changed: dict[int, tuple[BaseTool, dict[str, Any]]] = {}

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Take the tool's body away before ADK calls it."""
        if not _is_of_the_user(tool) or id(tool) in self._changed:
            return

        async def note(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
            self.called.append((tool_context.agent_name, tool.name, dict(args), _known(_behind(tool))))
            if escalates(
                _behind(tool) if isinstance(tool, FunctionTool) else tool
            ):  # else no loop that it ends would ever end
                tool_context.actions.escalate = True
            return {"result": f"(what {tool.name} gives)"}

        held = vars(tool)
        self._changed[id(tool)] = tool, {_BODY: held[_BODY]} if _BODY in held else {}
        held[_BODY] = note

    def restore(self) -> None:
        """Give every tool its body back."""
        for tool, body in self._changed.values():
            vars(tool).pop(_BODY, None)
            vars(tool).update(body)
        self._changed.clear()


class StandingBackend(MockBackend):
    """A `MockBackend` in whose runs no tool of the user's does anything.

    Attributes:
        standing: what notes the calls.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.standing: StandIns = StandIns()

    def plugins(self) -> list[BasePlugin]:
        """Those of every run, and the one that takes bodies away."""
        return [*super().plugins(), self.standing]


def _behind(tool: BaseTool) -> object:
    """What a tool would run: its function, or its class."""
    return getattr(tool.func, BEHIND, tool.func) if isinstance(tool, FunctionTool) else type(tool)


def _known(behind: object) -> object:
    """What tells two functions apart; each call of what makes one gives another, with the same code."""
    return behind.__code__ if isinstance(behind, FunctionType) and behind.__closure__ else behind


def _is_of_the_user(tool: BaseTool) -> bool:
    return not str(getattr(_behind(tool), "__module__", "")).startswith(_OURS)


# --- calling them ---------------------------------------------------------------------------------


def callable_tools(agent: AgentNode) -> tuple[list[str], list[str]]:
    """The names of the tools of an agent that a script may call, and of those that it must not.

    A tool that asks a person, or goes on when its call is over, would end the run; a toolset, or a tool of
    ADK's own, may reach out of this process.
    """
    safe: list[str] = []
    other: list[str] = []
    for tool in agent.tools:
        name = tool_name(tool) or type(tool).__name__
        if ends_loops([tool]):
            continue  # which the script does anyway
        behind: Any = getattr(tool, "func", getattr(tool, "function", tool))
        module = str(getattr(behind, "__module__", None) or type(behind).__module__)
        reachable = type(tool) is AgentTool or (tool_name(tool) is not None and not module.startswith(_OURS))
        (safe if reachable and not pauses(tool) else other).append(name)
    return safe, other


def uncalled(root: Node) -> list[str]:
    """The tools of a tree that a script does not call, each with its agent."""
    return [f"{name} of {agent.name}" for agent in agents_in(root) for name in callable_tools(agent)[1]]


def calls_of(names: Iterable[str], otherwise: Any) -> Callable[[LlmRequest], Any]:
    """An answer that calls tools of these names, with arguments made of what they declare.

    Args:
        otherwise: what is answered where the model is offered none of them.
    """
    wanted = frozenset(names)

    def answer(request: LlmRequest) -> Any:
        parts = [
            types.Part(function_call=types.FunctionCall(name=one.name, args=_arguments(one)))
            for one in _declared(request)
            if one.name in wanted
        ]
        return types.Content(role="model", parts=parts) if parts else otherwise

    return answer


def leaving(agent: AgentNode, answer: Any = "An answer.") -> list[Any]:
    """Answers by which an agent ends the loop around it in the second round, with its own tool for that.

    Args:
        answer: what it answers in the first round.
    """
    call = calls_of(loop_enders(agent.tools), answer)

    def leave(request: LlmRequest) -> Any:
        last = (request.contents[-1].parts or [None])[-1] if request.contents else None
        return answer if last is not None and last.function_response else call(request)

    return [answer, leave]


def _declared(request: LlmRequest) -> Iterable[types.FunctionDeclaration]:
    for tool in request.config.tools or ():
        yield from getattr(tool, "function_declarations", None) or ()


def _arguments(declared: types.FunctionDeclaration) -> dict[str, Any]:
    schema: Any = getattr(declared, "parameters_json_schema", None)
    if schema is None:
        given = declared.parameters
        schema = {} if given is None else given.model_dump(mode="json", exclude_none=True)
    if not isinstance(schema, Mapping):
        return {}
    whole = cast("Mapping[str, Any]", schema)
    fields: Mapping[str, Any] = whole.get("properties") or {}
    return {name: smallest(field, whole.get("$defs") or {}) for name, field in fields.items()}
