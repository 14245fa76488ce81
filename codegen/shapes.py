"""How ADK's fields appear in the generated modules: which of them, of what type, imported from where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from adk_fluent.tide.methods import HANDWRITTEN
from adk_fluent.tide.scan import AdkField, Scan
from adk_fluent.tide.typeref import CALLABLE, LITERAL, NONE, UNION, TypeRef, is_builtin, parse, union

from .fielddocs import STRUCTURE
from .source import spell

# Names that a scan does not record because they are no classes, or that every supported ADK must have:
# before 1.26 the callback contexts were two classes, and their old names still work everywhere.
_KNOWN_IMPORTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LITERAL: "typing",
        "Any": "typing",
        "CallbackContext": "google.adk.agents.callback_context",
        "ToolContext": "google.adk.tools",
    }
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How one field appears in our modules: its type, or its items' type when it holds several."""

    field: AdkField
    type: TypeRef
    item: TypeRef | None = None

    @property
    def alias(self) -> str | None:
        """The name of a callback's type, `SingleBeforeModelCallback`; `None` for other fields."""
        if not self.field.name.endswith("_callback"):
            return None
        return "Single" + "".join(part.capitalize() for part in self.field.name.split("_"))

    @property
    def spelled(self) -> str:
        """The type, or item type, as the modules write it."""
        return self.alias or spell(self.item or self.type)


def node_shapes(scan: Scan, adk_class: str) -> list[Shape]:
    """The fields of the node class for `adk_class`, in ADK's order."""
    return [shape(f, scan) for f in scan.classes[adk_class] if f.name not in STRUCTURE]


def method_shapes(scan: Scan, adk_classes: Sequence[str]) -> list[Shape]:
    """The fields that all of `adk_classes` share and that get a generated method."""
    shared = shared_fields(scan, adk_classes) - HANDWRITTEN.keys()
    return [shape(f, scan) for f in scan.classes[adk_classes[0]] if f.name in shared]


def shared_fields(scan: Scan, adk_classes: Sequence[str]) -> frozenset[str]:
    """The names of the fields that each of `adk_classes` has."""
    first, *others = (frozenset(f.name for f in scan.classes[c]) for c in adk_classes)
    return first.intersection(*others)


def shape(field: AdkField, scan: Scan) -> Shape:
    """The field's type as we can write it, with lists and "one or a list of callbacks" recognised."""
    ref = _importable(parse(field.type), scan)
    members = ref.args if ref.name == UNION else (ref,)
    for listed in (m for m in members if m.name == "list"):
        item = listed.args[0]
        if members == (listed,) or (item.name == CALLABLE and item in members):
            return Shape(field, ref, _contexts(item))
    return Shape(field, ref)


def _importable(ref: TypeRef, scan: Scan) -> TypeRef:
    """The type without the names that ADK does not export.

    A union loses such members (ADK's private `AgentMode` stands beside the literals it equals); anywhere
    else they become `object`.
    """
    if ref.name == UNION:
        return union(_importable(m, scan) for m in ref.args if m.args or _is_importable(m, scan))
    if ref.name == LITERAL:
        return ref
    if ref.args:
        return TypeRef(ref.name, tuple(_importable(a, scan) for a in ref.args))
    return ref if _is_importable(ref, scan) else TypeRef("object")


def _is_importable(ref: TypeRef, scan: Scan) -> bool:
    return ref == NONE or not ref.name.isidentifier() or _module(ref.name, scan) is not None


def _module(name: str, scan: Scan) -> str | None:
    """Where `name` is imported from: empty for a builtin, `None` when nothing public exports it."""
    if is_builtin(name):
        return ""
    return _KNOWN_IMPORTS.get(name) or scan.imports.get(name)


def _contexts(ref: TypeRef) -> TypeRef:
    """A callback's signature with the context class that every supported ADK has.

    Tool callbacks, those that take a `BaseTool`, receive a `ToolContext`; all others a `CallbackContext`.
    """
    if ref.name != CALLABLE:
        return ref
    parameters, result = ref.args
    name = "ToolContext" if TypeRef("BaseTool") in parameters.args else "CallbackContext"
    spelled = tuple(TypeRef(name) if p == TypeRef("Context") else p for p in parameters.args)
    return TypeRef(CALLABLE, (TypeRef(parameters.name, spelled), result))


def names_in(ref: TypeRef) -> Iterator[str]:
    """Every name that the type mentions, except the values of literals."""
    yield ref.name
    if ref.name != LITERAL:
        for argument in ref.args:
            yield from names_in(argument)


def imports_of(refs: Iterable[TypeRef], scan: Scan, extra: Mapping[str, str]) -> dict[str, set[str]]:
    """Module -> names for every name in `refs`, and for the `extra` names with their modules."""
    found: dict[str, set[str]] = {}
    pairs = [(name, _module(name, scan)) for ref in refs for name in names_in(ref)]
    for name, module in [*pairs, *extra.items()]:
        if module:
            found.setdefault(module, set()).add(name)
    return found
