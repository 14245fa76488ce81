"""A scan as the source of `adk_fluent/ir/_generated.py`.

The text is laid out as the formatter would, so generating needs no further tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from adk_fluent.tide.scan import OPTIONS, Scan
from adk_fluent.tide.typeref import NONE, UNION

from .shapes import Shape, imports_of, node_shapes
from .source import alias, constant_tuple, header, imports, spell

# The generated node class, and the constant that names its fields, per ADK class.
NODES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "LlmAgent": ("AgentFields", "AGENT_FIELDS"),
        "SequentialAgent": ("SequenceFields", "SEQUENCE_FIELDS"),
        "ParallelAgent": ("ParallelFields", "PARALLEL_FIELDS"),
        "LoopAgent": ("LoopFields", "LOOP_FIELDS"),
    }
)

# Those that ADK's workflow agents share: the base of their node classes, and the constant that names them.
_SHARED: Final = ("WorkflowFields", "WORKFLOW_FIELDS")

_RUNTIME_IMPORTS = """\
from typing import TYPE_CHECKING, Final

from adk_fluent.ir.base import UNSET, Node, Unset, node"""


def render_ir(scan: Scan) -> str:
    """One node class per agent class of the scan, with ADK's own field names."""
    shapes = {c: node_shapes(scan, c) for c in NODES}
    parts = [
        header(scan.adk_version, "Node fields that mirror ADK's agents, under ADK's own names.")
        + _RUNTIME_IMPORTS
        + _types([s for of_class in shapes.values() for s in of_class], scan)
        + f'\n\nADK_VERSION: Final = "{scan.adk_version}"\n'
        + '"""The google-adk release this module was generated from."""'
    ]
    workflows = [adk_class for adk_class in NODES if adk_class != "LlmAgent"]
    shared = [s for s in shapes[workflows[0]] if all(s in shapes[adk_class] for adk_class in workflows)]
    parts += _mirror(_SHARED, "agents that run others", shared)
    for adk_class, names in NODES.items():
        if adk_class in workflows:
            own = [s for s in shapes[adk_class] if s not in shared]
            parts += _mirror(names, f"`{adk_class}`", own, beside=_SHARED)
        else:
            parts += _mirror(names, f"`{adk_class}`", shapes[adk_class])
    options = constant_tuple("GENERATE_OPTIONS", [field.name for field in scan.classes[OPTIONS[0]]])
    told = '"""What `generate()` takes: the options of google-genai\'s `GenerateContentConfig`."""'
    return "\n\n\n".join([*parts, f"{options}\n{told}"]) + "\n"


def _types(shapes: list[Shape], scan: Scan) -> str:
    """The block for type checkers: ADK's classes and an alias per kind of callback."""
    aliases = {s.alias: s.item or s.type for s in shapes if s.alias}
    needed = imports_of((s.item or s.type for s in shapes), scan, {"TypeAlias": "typing"})
    lines = "\n".join(alias(name, ref, "    ") for name, ref in sorted(aliases.items()))
    return f"\n\nif TYPE_CHECKING:\n{imports(needed, '    ')}\n\n{lines}"


def _mirror(
    names: tuple[str, str], of: str, shapes: Sequence[Shape], beside: tuple[str, str] | None = None
) -> list[str]:
    """A node class and the constant that names its fields; `beside` names those whose fields it has, too."""
    name, constant = names
    base, others = beside or ("Node", None)
    lines = [
        "@node",
        f"class {name}({base}):",
        f'    """Fields of ADK\'s {of}; ADK decides about those left unset."""',
        *([""] if shapes else []),
        *(f"    {s.field.name}: {_declared(s)}" for s in shapes),
    ]
    told = f'"""The fields of `{name}`, in ADK\'s order."""'
    listed = constant_tuple(constant, [s.field.name for s in shapes], others)
    return ["\n".join(lines), f"{listed}\n{told}"]


def _declared(shaped: Shape) -> str:
    if shaped.item is not None:
        return f"tuple[{shaped.spelled}, ...] = ()"
    members = shaped.type.args if shaped.type.name == UNION else (shaped.type,)
    spelled = [spell(m) for m in members if m != NONE]
    return f"{' | '.join([*spelled, 'Unset', *(['None'] if NONE in members else [])])} = UNSET"
