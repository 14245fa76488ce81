"""A scan as the source of `adk_fluent/ir/_generated.py`.

The text is laid out as the formatter would, so generating needs no further tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    for adk_class, (node_class, constant) in NODES.items():
        names = [s.field.name for s in shapes[adk_class]]
        told = f'"""The fields of `{node_class}`, in ADK\'s order."""'
        parts.append(_node_class(node_class, adk_class, shapes[adk_class]))
        parts.append(f"{constant_tuple(constant, names)}\n{told}")
    options = constant_tuple("GENERATE_OPTIONS", [field.name for field in scan.classes[OPTIONS[0]]])
    told = '"""What `generate()` takes: the options of google-genai\'s `GenerateContentConfig`."""'
    return "\n\n\n".join([*parts, f"{options}\n{told}"]) + "\n"


def _types(shapes: list[Shape], scan: Scan) -> str:
    """The block for type checkers: ADK's classes and an alias per kind of callback."""
    aliases = {s.alias: s.item or s.type for s in shapes if s.alias}
    needed = imports_of((s.item or s.type for s in shapes), scan, {"TypeAlias": "typing"})
    lines = "\n".join(alias(name, ref, "    ") for name, ref in sorted(aliases.items()))
    return f"\n\nif TYPE_CHECKING:\n{imports(needed, '    ')}\n\n{lines}"


def _node_class(name: str, adk_class: str, shapes: Iterable[Shape]) -> str:
    lines = [
        "@node",
        f"class {name}(Node):",
        f'    """Fields of ADK\'s `{adk_class}`; ADK decides about those left unset."""',
        "",
        *(f"    {s.field.name}: {_declared(s)}" for s in shapes),
    ]
    return "\n".join(lines)


def _declared(shaped: Shape) -> str:
    if shaped.item is not None:
        return f"tuple[{shaped.spelled}, ...] = ()"
    members = shaped.type.args if shaped.type.name == UNION else (shaped.type,)
    spelled = [spell(m) for m in members if m != NONE]
    return f"{' | '.join([*spelled, 'Unset', *(['None'] if NONE in members else [])])} = UNSET"
