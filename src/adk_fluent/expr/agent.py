"""`Agent`: one model with its instruction, tools and callbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, LiteralString, Protocol, Self, TypeVar, Unpack, cast, overload

from adk_fluent.context.spec import Context
from adk_fluent.errors import ArgumentError, ExpressionError, whole_number
from adk_fluent.expr import adk_fields, arguments
from adk_fluent.expr._generated import AgentMethods
from adk_fluent.expr.agent_declarations import AgentDeclarations
from adk_fluent.expr.base import Expr, adopted, usable_tools
from adk_fluent.expr.options import leaving_out
from adk_fluent.ir import UNSET, AgentNode, adk_objects, graph
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.middleware.arguments import flag
from adk_fluent.prompt.spec import Arrangement, PromptSpec
from adk_fluent.state import answers, delta
from adk_fluent.tools import sources, wrappers

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.models import BaseLlm
    from google.genai.types import Content, GenerateContentConfigDict, Part
    from typing_extensions import TypeForm, deprecated

    from adk_fluent.expr.tools import ToolLike

    Instruction = str | PromptSpec | Callable[[ReadonlyContext], str | Awaitable[str]]
    StaticContent = str | Content | Part | list[Part | str]

    class AgentSettings(Protocol):
        """Settings that `use` takes: a `Preset`."""

        def apply(self, agent: Agent[Any]) -> Agent[Any]:
            """The agent with these settings."""
            ...

    class NoAgent:
        """The result of `reads([...])` and `writes([...])` for a type checker; such a call raises."""
else:

    def deprecated(message: str) -> Callable[[Any], Any]:
        """Do nothing at run time: the decorator's message is for type checkers."""
        return lambda function: function


_BLANK: Final = AgentNode()
_new, _put = object.__new__, object.__setattr__
T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M")


class Agent(Expr[T_co], AgentMethods, AgentDeclarations):
    """One model with its instruction, tools and callbacks: ADK's `LlmAgent`.

    Args:
        name: a Python identifier; `user` is reserved.
        model: a model name or a `BaseLlm`; without one, ADK takes the parent's model or its default.

    Raises:
        InvalidNameError: ADK would reject the name; the message suggests a valid one.

    Example:
        >>> from adk_fluent import Agent
        >>> writer = Agent("writer", "gemini-2.5-flash").instruct("Write about {topic}.").writes("draft")
        >>> sorted(writer.node.reads_keys), sorted(writer.node.writes_keys)
        (['topic'], ['draft'])
    """

    __slots__ = ()
    _what = "agent"

    if TYPE_CHECKING:
        _node: AgentNode | dict[str, object]
        """The node, or its fields until the first access: a chain of methods needs only the last node."""

        def __init__(self: Agent[str], name: str, model: str | BaseLlm | None = None) -> None: ...
    else:

        @leaving_out("more", "fields")
        def __init__(self, name: str, model: str | BaseLlm | None = None, *more, **fields) -> None:
            if more or fields:
                raise adk_fields.not_fluent(name, model, more, fields)
            given: dict[str, object] = {"name": graph.check_name(name)}
            if model is not None:
                given["model"] = _model(model, name)
            _put(self, "_node", given)

    @property
    def node(self) -> AgentNode:
        """The agent's IR node."""
        node = self._node
        if isinstance(node, dict):
            node = _BLANK.updated(node)
            _put(self, "_node", node)
        return node

    def _set(self, **fields: object) -> Self:
        node, made = self._node, _new(type(self))
        _put(made, "_node", {**(node if isinstance(node, dict) else node.given), **fields})
        return made

    # --- model and instruction --------------------------------------------------------------------

    def model(self, model: str | BaseLlm) -> Agent[T_co]:
        """Set ADK's `model`: a model name or a `BaseLlm`."""
        return self._set(model=_model(model, self.name))

    def instruct(self, instruction: Instruction) -> Agent[T_co]:
        r"""Set ADK's `instruction`.

        Other braces are plain text, so JSON can be written as it is; `\{key}` is a literal `{key}`.

        Args:
            instruction: a text, a `P` prompt, or a function of ADK's `ReadonlyContext`. In a text, `{key}` is
                the value of a state key, `{key?}` of one that may be missing, and `{artifact.name}` an
                artifact. The text of a function is used unchanged.

        Raises:
            ArgumentError: the instruction is neither a text, nor a prompt, nor a function.
        """
        return self._set(instruction=_instruction(instruction, "instruct()"))

    def static(self, content: StaticContent) -> Agent[T_co]:
        """Set ADK's `static_instruction`: text or content that never changes, so providers can cache it."""
        if isinstance(content, Expr | PromptSpec | Context) or callable(content) or not content:
            hint = " Give its text: str(prompt)." if isinstance(content, PromptSpec) else ""
            raise ArgumentError(
                f"Agent {self.name!r}: static() takes text, a Content, or Parts, not "
                f"{arguments.describe(cast(object, content))}.{hint}"
            )
        return self._set(static_instruction=delta.detached(content))

    def global_instruct(self, instruction: Instruction) -> Agent[T_co]:
        """Set ADK's `global_instruction`, which every agent of the tree receives; only the root's is used."""
        if isinstance(instruction, PromptSpec) and instruction.needs_model:
            raise ArgumentError(
                "global_instruct() cannot ask a model: use P.compress and P.adapt in instruct()."
            )
        return self._set(global_instruction=_instruction(instruction, "global_instruct()"))

    def generate(self, **config: Unpack[GenerateContentConfigDict]) -> Agent[T_co]:
        """Set generation options such as `temperature=0` or `max_output_tokens=200`.

        They become ADK's `generate_content_config`. Later calls add to earlier ones.

        Raises:
            ArgumentError: the option does not exist, or another method sets it.

        >>> Agent("a").generate(temperature=0).node.generate_content_config
        GenerateOptions(options=(('temperature', 0),))
        """
        for option in config:
            adk_fields.check_option(option, self.name)
        present = self.node.generate_content_config
        options = dict(present.options) if isinstance(present, GenerateOptions) else {}
        options |= {name: delta.detached(value) for name, value in config.items()}
        return self._set(generate_content_config=GenerateOptions(tuple(options.items())))

    # --- tools ------------------------------------------------------------------------------------

    def tool(
        self, tool: ToolLike, *, require_confirmation: bool | Callable[..., bool] = False
    ) -> Agent[T_co]:
        """Add a tool: a function, a tool of `T`, or any tool or toolset of ADK, unchanged.

        Args:
            tool: the tool.
            require_confirmation: `True` stops the run before each call until a person approves it; a function
                of the call's arguments, by name, decides for each call. For a toolset, it holds for each of
                its tools.

        Raises:
            ArgumentError: the value cannot be a tool.
        """
        tools = usable_tools(tool)
        if not callable(require_confirmation):
            flag(require_confirmation, f"Agent {self.name!r}: tool(require_confirmation=)")
        if require_confirmation is False:
            return self._append("tools", *tools)
        if callable(tool) and hasattr(tool, "__name__"):
            return self._append("tools", sources.FunctionTool(tool, require_confirmation))
        when = require_confirmation if callable(require_confirmation) else None
        return self._append("tools", *(wrappers.ConfirmedTool(one, when) for one in tools))

    def tools(self, *tools: ToolLike) -> Agent[T_co]:
        """Add several tools; see `tool`. `T` has more kinds of tools, and wrappers such as `T.retry`.

        >>> from adk_fluent import Agent, T
        >>> def weather(city: str) -> str:
        ...     return "sunny"
        >>> Agent("guide").tools(T.google_search() | T.retry(weather, 3)).node.tools
        (T.google_search(), T.retry(weather))
        """
        return self._append("tools", *(one for tool in tools for one in usable_tools(tool)))

    # --- what the model sees of the conversation --------------------------------------------------

    def context(self, spec: Context) -> Agent[T_co]:
        """Select the part of the conversation that the agent sees; adds to earlier `context` and `reads`.

        Raises:
            ArgumentError: the spec is not made by a factory of `C`.

        Example:
            >>> from adk_fluent import Agent, C
            >>> Agent("editor").context(C.window(n=3)).reads("tone").node.annotations.context
            C.window(n=3) + C.from_state('tone')
        """
        present = self.node.annotations.context
        added = _context(spec)
        whole = present + added if isinstance(present, Context) else added
        return self._set(annotations=self.node.annotations.replace(context=whole))

    # To a type checker, a field of a schema is a value of its type, so the type of keys is `object`. A list
    # of literals is a mistake; the first overload catches it, and its decorator has it reported.
    @overload
    @deprecated('Keys stand one by one: reads("a", "b").')
    def reads(self, *keys: list[LiteralString], keep_history: bool = False) -> NoAgent: ...
    @overload
    def reads(  # pyright: ignore[reportOverlappingOverload]  # only one of them returns
        self, *keys: object, keep_history: bool = False
    ) -> Agent[T_co]: ...
    def reads(self, *keys: object, keep_history: bool = False) -> Agent[T_co] | NoAgent:
        """Show the agent these state values instead of the conversation.

        They are in a `<conversation_context>` block at the end of its instruction; a key that is not set is
        left out. The agent still sees the current user message.

        Args:
            keys: keys as text, with their scope prefix, or fields of a `StateSchema`.
            keep_history: True if the agent sees the conversation, too.

        Raises:
            ArgumentError: there is no key, or a key is neither text nor a field.
        """
        if not keys:
            raise ArgumentError(f"Agent {self.name!r}: reads() needs at least one state key.")
        from adk_fluent.context.sources import DefaultContext, StateValues

        flag(keep_history, f"Agent {self.name!r}: reads(keep_history=)")
        names = tuple(dict.fromkeys(arguments.check_key(key, "reads()") for key in keys))
        shown = StateValues(names)
        fields = (*self.node.read_fields, *(key for key in keys if isinstance(key, StateFieldRef)))
        seen = self.context(DefaultContext() + shown if keep_history else shown)
        return seen._set(read_fields=tuple(dict.fromkeys(fields)))

    # --- data -------------------------------------------------------------------------------------

    @overload
    @deprecated('A key stands alone: writes("a"). Several values are fields of a StateSchema.')
    def writes(self, *keys: list[LiteralString]) -> NoAgent: ...
    @overload
    def writes(self, *keys: object) -> Agent[T_co]: ...  # pyright: ignore[reportOverlappingOverload]  # only one of them returns
    def writes(self, *keys: object) -> Agent[T_co] | NoAgent:
        """Store the answer in state, under one key or under the keys of schema fields.

        Args:
            keys: one key as text, with its scope prefix (ADK's `output_key`), or fields of a `StateSchema`.
                One `str` field holds the answer unchanged. With several fields, or one of another type, the
                agent answers in JSON with just those fields, unless `returns` names a type that has them;
                each value is checked and stored under its field's key. The declared type is `object`, because
                to a type checker `BillingState.intent` is a `str`; a call with other values raises.

        Raises:
            ArgumentError: the argument is neither one key nor fields.
            ExpressionError: `returns` names a type without one of the fields.
        """
        if len(keys) == 1 and not isinstance(keys[0], StateFieldRef):
            return self._set(output_key=arguments.check_key(keys[0], "writes()"), written_fields=())
        fields = tuple(key for key in keys if isinstance(key, StateFieldRef))
        if not fields or len(fields) < len(keys):
            raise ArgumentError(
                f"Agent {self.name!r}: writes() takes one key, or fields of a StateSchema, not "
                f"{', '.join(map(repr, keys)) or 'nothing'}. Several values need a schema, so that the agent "
                "knows their types."
            )
        made = self._set(
            written_fields=tuple(dict.fromkeys(fields)),
            output_key=fields[0].key if len(fields) == 1 else UNSET,
        )
        answers.check_answer(made.node)
        return made

    def outputs(self, *keys: object) -> Agent[T_co]:
        """Do the same as `writes`, by the name of ADK's `output_key`. Prefer `writes`."""
        return self.writes(*keys)

    def returns(self, schema: TypeForm[M], *, retries: int = 0) -> Agent[M]:
        """Make the answer a `schema` (ADK's `output_schema`); `ask` then returns it parsed.

        The request asks the model for JSON; a Markdown fence around the JSON is removed. An answer that does
        not match the type raises `AnswerError` at this step. If there is no answer at all, `ask` raises
        `AnswerError` with the reason; for `Model | None`, it returns `None`.

        Args:
            schema: a pydantic model, `Model | None`, a union of models, `list[Model]` and the like.
            retries: most times that the model is asked again if its answer does not match; 0 by default. It
                sees its answer and the error. No other step sees a wrong answer: its event has no content,
                and the error is in `metadata["adk_fluent.wrong_answer"]`. A stream therefore yields the
                chunks of an answer once the answer is known to match. A tool may raise `AskAgain` as often.

        Example:
            >>> from pydantic import BaseModel
            >>> from adk_fluent import Agent
            >>> from adk_fluent.testing import mock_backend
            >>> class Invoice(BaseModel):
            ...     total: float
            >>> Agent("clerk").returns(Invoice).ask("Bill", backend=mock_backend({"clerk": {"total": 3}}))
            Invoice(total=3.0)

        Raises:
            ArgumentError: `schema` is not a type; JSON would lose a part of its values, as with a `SecretStr`
                or a field with `exclude=True`; or `retries` is not a whole number, 0 or more.
            ExpressionError: `schema` lacks a field that `writes` names.
        """
        again = whole_number(retries, "returns(retries=)")
        kind = arguments.check_faithful(schema, "returns()", f"Agent {self.name!r}: ")
        made = self._set(output_schema=kind, retries=again)
        answers.check_answer(made.node)
        return cast("Agent[M]", made)

    @overload
    def __matmul__(self, schema: TypeForm[M]) -> Agent[M]: ...
    @overload
    def __matmul__(self, schema: UnionType) -> Agent[Any]: ...
    def __matmul__(self, schema: Any) -> Agent[Any]:
        """`agent @ Model` is `agent.returns(Model)`; type checkers understand aliases in `returns` only."""
        return self.returns(schema)

    # --- delegation -------------------------------------------------------------------------------

    def delegate(self, *agents: Expr[Any] | NativeAgent) -> Agent[T_co]:
        """Add agents to which the model may transfer the conversation (ADK's `sub_agents`).

        Raises:
            ExpressionError: no agent is given.
        """
        if not agents:
            raise ExpressionError(f"Agent {self.name!r}: delegate() needs at least one agent.")
        found: list[Expr[Any]] = []
        for agent in agents:
            if not isinstance(agent, Expr) and not adk_objects.is_native(agent):
                raise ArgumentError(
                    f"delegate() takes expressions that have a name, not {arguments.describe(agent)}."
                    f"{arguments.unpacked(agent, 'delegate')}"
                )
            found.append(agent if isinstance(agent, Expr) else adopted(agent))
        return self._append("children", *(agent.node for agent in found))

    def sub_agents(self, *agents: Expr[Any] | NativeAgent) -> Agent[T_co]:
        """Do the same as `delegate`, by the name of ADK's field. Prefer `delegate`."""
        return self.delegate(*agents)

    def stay(self) -> Agent[T_co]:
        """Forbid transfers to the parent (ADK's `disallow_transfer_to_parent`)."""
        return self._set(disallow_transfer_to_parent=True)

    def no_peers(self) -> Agent[T_co]:
        """Forbid transfers to siblings (ADK's `disallow_transfer_to_peers`)."""
        return self._set(disallow_transfer_to_peers=True)

    def isolate(self) -> Agent[T_co]:
        """Forbid transfers to the parent and to siblings: `stay()` and `no_peers()`."""
        return self.stay().no_peers()

    def use(self, preset: AgentSettings) -> Agent[T_co]:
        """Apply a `Preset`: call its methods in order."""
        if not hasattr(preset, "apply"):
            raise ArgumentError(f"use() takes a Preset, not {arguments.describe(preset)}.")
        return cast("Agent[T_co]", preset.apply(self))


def _model(model: str | BaseLlm, name: str) -> str | BaseLlm:
    if not adk_objects.is_model(model):
        raise ArgumentError(
            f"Agent {name!r}: the model must be a name or a BaseLlm, not {arguments.describe(model)}."
        )
    return model


def _instruction(instruction: object, where: str) -> object:
    if isinstance(instruction, (str, PromptSpec)):
        return instruction
    if callable(instruction) and not isinstance(instruction, type | Expr):
        return arguments.with_argument(instruction, where)
    hint = " A C spec goes into .context()." if isinstance(instruction, Context) else ""
    if isinstance(instruction, Arrangement):
        hint = f" It stands to the right of a prompt: P.task(...) | {instruction!r}."
    given = arguments.describe(cast(object, instruction))
    raise ArgumentError(f"{where} takes text, a P prompt or a function of the context, not {given}.{hint}")


def _context(spec: object) -> Context:
    if isinstance(spec, Context):
        return spec
    hint = ""
    if isinstance(spec, Expr):
        hint = " Steps such as C.capture('key') stand before the agent: C.capture('key') >> agent."
    elif isinstance(spec, PromptSpec | Arrangement):
        hint = " A P prompt goes into .instruct()."
    elif isinstance(spec, str):
        hint = f" For a value of the state write .reads({spec!r})."
    raise ArgumentError(f"context() takes a C spec, not {arguments.describe(cast(object, spec))}.{hint}")
