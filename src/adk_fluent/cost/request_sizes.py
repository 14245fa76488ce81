"""Sizes of the parts of a request that are known before a run: instruction, tools, and ADK's own text."""

from __future__ import annotations

import inspect
import os.path
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from adk_fluent.analysis.plan import Step
from adk_fluent.context.spec import Context
from adk_fluent.context.view import ExpectedRequest
from adk_fluent.cost.traffic import TrafficAssumptions
from adk_fluent.ir.annotations import InstructionSpec
from adk_fluent.ir.execution import ByModel
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.template import Placeholder, segments
from adk_fluent.ir.tools import GenerateOptions, ToolSpec, tool_name
from adk_fluent.prompt.spec import PromptSpec, Rewrite, When
from adk_fluent.prompt.text import CHARACTERS_PER_TOKEN

UNKNOWN_INSTRUCTION: Final = 400
"""Assumed characters of an instruction that a function returns."""
_IDENTITY: Final = len('You are an agent. Your internal name is "".\n\n')
_DESCRIBED: Final = len(' The description about you is "".')
_TRANSFER: Final = 1_500
"""Characters that ADK adds for an agent that can transfer: the rules, and the tool."""
_TARGET: Final = len("\n\nAgent name: \nAgent description: \n\n")
_TOOL: Final = 60
"""Characters around the name and description of a tool."""
_PARAMETER: Final = 45
"""Characters of a parameter beside its name."""
_BLOCK: Final = len("<conversation_context>\n\n</conversation_context>\n\n")
_SAID: Final = len("[]: \n")
_QUOTED: Final = len("For context:[] said: ")
_FENCED: Final = 500
"""Characters around another agent's text, if ADK marks it as a quotation."""


def constant_parts(step: Step, root: Any) -> tuple[int, tuple[str, ...]]:
    """The characters of an agent's system instruction and tools, and the keys of its placeholders."""
    node: AgentNode = step.node
    given = node.given
    characters = _IDENTITY + len(step.name)
    if description := given.get("description"):
        characters += _DESCRIBED + len(str(description))
    keys: list[str] = []
    for instruction in (
        root.given.get("global_instruction"),
        given.get("instruction"),
        given.get("static_instruction"),
    ):
        if instruction is not None:
            characters += instruction_size(instruction, keys)
    if isinstance(spec := node.annotations.context, Context) and not spec.is_default:
        shown = spec.view().keys
        keys += shown
        characters += _BLOCK + sum(_SAID + len(key) for key in shown)
    if "tools" in given:
        characters += sum(map(_tool_size, node.tools))
    return characters + _transfer_text(step), tuple(keys)


def instruction_size(instruction: object, keys: list[str]) -> int:
    """The characters of an instruction; its keys are appended to `keys`, each as often as it occurs."""
    if isinstance(instruction, InstructionSpec):
        texts = instruction.templates
        inside = {read.key for read in instruction.key_reads()}
        keys += inside
    elif isinstance(instruction, str):
        texts = (instruction,)
    else:
        return UNKNOWN_INSTRUCTION
    characters = 0
    for text in texts:
        for piece in segments(text):
            if isinstance(piece, Placeholder):
                keys.append(piece.key)
            else:
                characters += len(piece)
    return characters


def _tool_size(tool: object) -> int:
    if isinstance(tool, ToolSpec) and tool.called is None and tool.held:  # a value that holds several tools
        return sum(map(_tool_size, tool.held))
    function: Any = getattr(tool, "function", None) or getattr(tool, "func", tool)
    name = tool_name(tool) or type(tool).__name__
    described = (
        inspect.getdoc(function) if hasattr(function, "__code__") else getattr(tool, "description", "")
    )
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ("request",)
    return _TOOL + len(name) + len(described or "") + sum(_PARAMETER + len(one) for one in names)


def _transfer_text(step: Step) -> int:
    """The characters that ADK adds so that an agent can transfer to others."""
    node: AgentNode = step.node
    parent = step.parent
    if not step.children and (parent is None or not isinstance(parent.node.runs, ByModel)):
        return 0
    targets = list(step.children)
    if parent is not None and isinstance(parent.node.runs, ByModel):
        if node.given.get("disallow_transfer_to_parent") is not True:
            targets.append(parent)
        if node.given.get("disallow_transfer_to_peers") is not True:
            targets += [peer for peer in parent.children if peer is not step]
    if not targets:
        return 0
    told = (
        _TARGET + 2 * len(one.name) + len(str(one.node.given.get("description") or "")) for one in targets
    )
    return _TRANSFER + sum(told)


def quotation_size(step: Step) -> int:
    """The characters that the request has around another agent's text."""
    spec = step.node.annotations.context
    if isinstance(spec, Context) and not spec.is_untouched and not spec.view().as_contents:
        return _SAID + 10
    return _FENCED if _fences() else _QUOTED + 10


@cache
def _fences() -> bool:
    """True if the installed ADK marks other agents' text as a quotation; read from its source."""
    spec = find_spec("google.adk")
    if spec is None or spec.origin is None:
        return True
    return os.path.exists(os.path.dirname(spec.origin) + "/flows/llm_flows/context/_fencing.py")


def longest_answer(node: AgentNode) -> int | None:
    """The largest number of tokens of an agent's answer, or `None` if the agent declares no limit."""
    content = node.annotations.content
    config = node.given.get("generate_content_config")
    if content is None and config is None:
        return None
    if isinstance(config, GenerateOptions):
        option = dict(config.options).get("max_output_tokens")
    else:
        option = getattr(config, "max_output_tokens", None)
    found = [limit for limit in (option, content and content.max_output_tokens) if isinstance(limit, int)]
    return min(found, default=None)


# --- parts that helper models rewrite ---------------------------------------------------------------


class RewrittenPart(NamedTuple):
    """A part of an instruction that a helper model rewrites.

    Attributes:
        question: the call of the helper model.
        every_run: True if it is called in every run; a constant text is rewritten once and cached.
        shorter: the number of tokens by which the part becomes shorter.
    """

    question: ExpectedRequest
    every_run: bool
    shorter: float


def rewritten_parts(
    node: AgentNode, size: Callable[[str], float], traffic: TrafficAssumptions
) -> Iterator[RewrittenPart]:
    """The parts of an agent's instruction that a helper model rewrites (`P.compress`, `P.adapt`).

    Args:
        size: function that returns the tokens of a state value.
    """
    instruction = node.given.get("instruction")
    if not isinstance(instruction, PromptSpec) or not instruction.needs_model:
        return
    for part in _rewrites(instruction):
        keys: list[str] = []
        characters = instruction_size(part.source, keys)
        tokens = characters / traffic.characters_per_token + sum(map(size, keys))
        asked = part.question("x" * int(tokens * CHARACTERS_PER_TOKEN))
        if asked is None:  # the text is short enough already
            continue
        usual = tokens if part.operation == "adapt" else traffic.avg_output_tokens
        answer = usual if part.max_tokens is None else min(tokens, part.max_tokens)
        question = ExpectedRequest(
            f"P.{part.operation}", part.model, len(asked) / CHARACTERS_PER_TOKEN, answer
        )
        yield RewrittenPart(question, bool(keys) or not part.source.static, tokens - answer)


def _rewrites(prompt: PromptSpec) -> Iterator[Rewrite]:
    for part in prompt.parts:
        if isinstance(part, Rewrite):
            yield part
        elif isinstance(part, When):
            yield from _rewrites(part.then)
