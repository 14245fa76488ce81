"""`to_source`: an adopted project, or any expression, as readable source."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final, cast

from adk_fluent.adopt.writer import Writer
from adk_fluent.adopt.writing import assignment, imports
from adk_fluent.expr.base import Expr
from adk_fluent.ir.adk_objects import is_native, object_path
from adk_fluent.ir.base import Node, rewrite, root_of
from adk_fluent.ir.frozen import Frozen


@dataclass(frozen=True, slots=True)
class GeneratedSource:
    """Source of an expression.

    Attributes:
        text: the module; its `pipeline` is the expression.
        native: what was left as it is, and why, in a line each.
        left_out: what is not in it, and why, in a line each.
    """

    text: str
    native: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def to_source(x: object) -> str:
    """Python source of a project made with ADK alone, or of any expression, as adk-fluent says it.

    Functions, classes, tools and models are referred to by import; what has no import path is taken from the
    native agent, and a lambda of an expression is written as it stands in its file. The module has
    `pipeline`, the expression, and `root_agent`, what it builds. Lines at its top say what was left native or
    left out, such as a token, and why.

    Args:
        x: an agent, a workflow or an app of ADK's, or an expression.

    Raises:
        ArgumentError: something in it can be referred to in no way, or an app has a summarizer of its own.

    Example:
        >>> from google.adk.agents import LlmAgent
        >>> print(to_source(LlmAgent(name="clerk", instruction="Sort {topic}.", output_key="intent")))
        from adk_fluent import Agent
        <BLANKLINE>
        pipeline = Agent("clerk").instruct("Sort {topic}.").writes("intent")
        root_agent = pipeline.build()
        <BLANKLINE>
    """
    return written(x).text


def written(x: object) -> GeneratedSource:
    """`to_source`, with what was left native and what was left out."""
    from adk_fluent.adopt.steps import write

    if not is_native(x):
        return _module(Writer(write, copies=True), root_of(x), None)
    from adk_fluent.adopt.adopting import adopt, config_of

    native: Any = x
    writer, is_app = Writer(write, copies=False), hasattr(native, "plugins")  # agents have a root_agent, too
    if is_app:
        config_of(native)  # what is written calls it, so it must not fail there
    writer.learn(native.root_agent if is_app else native)
    return _module(writer, adopt(native).node, writer.learn_app(native) if is_app else None)


def _module(writer: Writer, root: Node, app: str | None) -> GeneratedSource:
    """The whole module."""
    writer.lines.append(assignment("pipeline", writer.chain(root)))
    if app is None:
        writer.lines.append("root_agent = pipeline.build()")
    else:
        config = f"{writer.names.use('adk_fluent.adopt', 'config_of')}({writer.names.ref(app)})"
        writer.lines.append(f"app = pipeline.to_app({config})")
    native, left_out = tuple(dict.fromkeys(writer.native)), tuple(dict.fromkeys(writer.left_out))
    notes = [
        *(f"# Left native: {line}\n" for line in native),
        *(f"# Left out: {line}\n" for line in left_out),
    ]
    used = [(module, name, alias) for alias, (module, name) in writer.names.imported.items()]
    body = "\n".join(writer.lines)
    return GeneratedSource(f"{''.join(notes)}{imports(used)}\n\n{body}\n", native, left_out)


def bare(x: Expr[Any] | Node) -> Node:
    """The tree as source says it: without the note that it was made with ADK alone.

    ADK's tools around agents, which are never equal, stand in it as what they are around.
    """
    from adk_fluent.adopt.adopting import inside

    def change(node: Node) -> Node:
        notes = node.annotations
        node = node if notes.adopted is None else node.replace(annotations=notes.replace(adopted=None))
        tools: tuple[Any, ...] = node.given.get("tools", ())
        held = tuple(_bare_tool(tool, inside(tool)) for tool in tools)
        same = all(one is tool for one, tool in zip(held, tools, strict=True))
        return node if same else node.replace(tools=held)

    return rewrite(root_of(x), change)


def _bare_tool(tool: object, held: Any) -> object:
    if held is not None:
        return held.replace(body=bare(held.body))
    if isinstance(tool, Frozen) or object_path(tool) is not None:
        return tool
    return MadeAlike(tool)


class MadeAlike:
    """A tool that no module holds, such as one that a call makes: equal to what was made alike.

    Two functions are alike if they are of one place in the source and hold the same; two objects if they are
    of one class and hold the same.
    """

    __slots__ = ("tool",)

    def __init__(self, tool: object) -> None:
        self.tool: object = tool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MadeAlike) and _alike(self.tool, other.tool)

    def __hash__(self) -> int:
        return hash(type(self.tool))

    def __repr__(self) -> str:
        return f"{self.tool!r:.60}"


def _alike(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether two values hold the same, as far as that can be seen."""
    if one is other:
        return True
    if type(one) is not type(other) or depth > _DEPTH:
        return False
    if isinstance(one, FunctionType):
        cells = [[cell.cell_contents for cell in each.__closure__ or ()] for each in (one, other)]
        own = [(each.__defaults__, each.__kwdefaults__, vars(each)) for each in (one, other)]
        return one.__code__ is other.__code__ and _alike([*cells[0], own[0]], [*cells[1], own[1]], depth + 1)
    if isinstance(one, list | tuple):
        pairs = zip(cast("list[Any]", one), cast("list[Any]", other), strict=False)
        return len(cast("list[Any]", one)) == len(other) and all(_alike(*pair, depth + 1) for pair in pairs)
    if isinstance(one, dict):
        held = cast("dict[Any, Any]", one)
        return held.keys() == other.keys() and all(
            _alike(value, other[key], depth + 1) for key, value in held.items()
        )
    if type(one).__eq__ is not object.__eq__:
        return bool(one == other)
    return hasattr(one, "__dict__") and _alike(vars(one), vars(other), depth + 1)


_DEPTH: Final = 12
