"""A scan as the two generated modules: pure functions from values to source text.

The text is laid out as the formatter would, so generating needs no further tool and is the same everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .fielddocs import FIELD_DOCS, HANDWRITTEN, METHOD_NAMES, STRUCTURE, FieldDoc
from .scan import Field, Scan
from .source import WIDTH, alias, constant_tuple, docstring, imports, signature, spell
from .typeref import CALLABLE, LITERAL, NONE, UNION, TypeRef, is_builtin, parse, union

# Generated node class and constant per ADK class.
NODES: Mapping[str, tuple[str, str]] = {
    "LlmAgent": ("AgentFields", "AGENT_FIELDS"),
    "SequentialAgent": ("SequenceFields", "SEQUENCE_FIELDS"),
    "ParallelAgent": ("ParallelFields", "PARALLEL_FIELDS"),
    "LoopAgent": ("LoopFields", "LOOP_FIELDS"),
}
WORKFLOWS = ("SequentialAgent", "ParallelAgent", "LoopAgent")

# Where the names come from that a scan does not record, or that must exist in every supported ADK: before
# 1.26 the callback contexts were two classes, and their old names still work everywhere.
_KNOWN_IMPORTS: Mapping[str, str] = {
    CALLABLE: "collections.abc",
    "Awaitable": "collections.abc",
    LITERAL: "typing",
    "Any": "typing",
    "CallbackContext": "google.adk.agents.callback_context",
    "ToolContext": "google.adk.tools",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How one field appears in our modules: its type, or its items' type when it holds several."""

    field: Field
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


def shape(field: Field, scan: Scan) -> Shape:
    """The field's type with what cannot be imported left out, and lists recognised."""
    ref = _importable(parse(field.type), scan)
    members = ref.args if ref.name == UNION else (ref,)
    for listed in (m for m in members if m.name == "list"):
        item = listed.args[0]
        if members == (listed,) or (item.name == CALLABLE and item in members):
            return Shape(field, ref, _contexts(item))
    return Shape(field, ref)


def _importable(ref: TypeRef, scan: Scan) -> TypeRef:
    """Without union members that ADK does not export; a bare name that stays unknown is an `object`."""
    if ref.name == UNION:
        kept = [
            _importable(m, scan) for m in ref.args if m.args or m == NONE or _module(m.name, scan) is not None
        ]
        return union(kept)
    if ref.name == LITERAL or not ref.args:
        known = ref.name in {"None", "...", LITERAL} or _module(ref.name, scan) is not None
        return ref if known else TypeRef("object")
    return TypeRef(ref.name, tuple(_importable(a, scan) for a in ref.args))


def _module(name: str, scan: Scan) -> str | None:
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
    spelled = tuple(TypeRef(name) if p.name == "Context" else p for p in parameters.args)
    return TypeRef(CALLABLE, (TypeRef(parameters.name, spelled), result))


def _names(ref: TypeRef) -> Iterator[str]:
    yield ref.name
    if ref.name != LITERAL:
        for argument in ref.args:
            yield from _names(argument)


def _imports_of(refs: Iterable[TypeRef], scan: Scan, **more: str) -> dict[str, set[str]]:
    """Module -> names, for every name in `refs`, and `more` names with their modules."""
    found: dict[str, set[str]] = {}
    pairs = [(n, _module(n, scan)) for ref in refs for n in _names(ref)]
    for name, module in [*pairs, *more.items()]:
        if module:
            found.setdefault(module, set()).add(name)
    return found


def _node_shapes(scan: Scan, adk_class: str) -> list[Shape]:
    return [shape(f, scan) for f in scan.classes[adk_class] if f.name not in STRUCTURE]


def _method_shapes(scan: Scan, adk_classes: Sequence[str]) -> list[Shape]:
    shared = set.intersection(*({f.name for f in scan.classes[c]} for c in adk_classes))
    fields = scan.classes[adk_classes[0]]
    return [shape(f, scan) for f in fields if f.name in shared and f.name not in HANDWRITTEN]


def _header(scan: Scan, summary: str) -> str:
    return (
        f"# generated by codegen from google-adk {scan.adk_version}; do not edit\n"
        f'"""{summary}"""\n\n'
        "from __future__ import annotations\n\n"
    )


# --- ir/_generated.py -----------------------------------------------------------------------------


def render_ir(scan: Scan) -> str:
    """The source of `adk_fluent/ir/_generated.py`."""
    shapes = {c: _node_shapes(scan, c) for c in NODES}
    every = [s for of_class in shapes.values() for s in of_class]
    aliases = {s.alias: s.item or s.type for s in every if s.alias}
    types = _imports_of(
        (s.item or s.type for s in every), scan, **({"TypeAlias": "typing"} if aliases else {})
    )
    runtime = {"typing": ["TYPE_CHECKING", "Final"], "adk_fluent.ir.base": ["UNSET", "Node", "Unset", "node"]}
    parts = [
        _header(scan, "Node fields that mirror ADK's agents, under ADK's own names.")
        + _runtime_imports(runtime)
        + "\n\nif TYPE_CHECKING:\n"
        + imports(types, "    ")
        + "\n\n"
        + "\n".join(alias(name, ref, "    ") for name, ref in sorted(aliases.items()))
        + f'\n\nADK_VERSION: Final = "{scan.adk_version}"\n"""The google-adk release this module was generated from."""'
    ]
    for adk_class, (node_class, constant) in NODES.items():
        names = [s.field.name for s in shapes[adk_class]]
        parts.append(_node_class(node_class, adk_class, shapes[adk_class]))
        parts.append(
            f'{constant_tuple(constant, names)}\n"""The fields of `{node_class}`, in ADK\'s order."""'
        )
    return "\n\n\n".join(parts) + "\n"


def _runtime_imports(names: Mapping[str, Sequence[str]]) -> str:
    return "\n\n".join(f"from {module} import {', '.join(listed)}" for module, listed in names.items())


def _node_class(name: str, adk_class: str, shapes: Iterable[Shape]) -> str:
    lines = [
        "@node",
        f"class {name}(Node):",
        f'    """Fields of ADK\'s `{adk_class}`; ADK decides about those left unset."""',
        "",
        *(f"    {s.field.name}: {_node_type(s)}" for s in shapes),
    ]
    return "\n".join(lines)


def _node_type(shaped: Shape) -> str:
    if shaped.item is not None:
        return f"tuple[{shaped.spelled}, ...] = ()"
    line = f"{shaped.spelled} | Unset = UNSET"
    return line if len(line) + len(shaped.field.name) + 6 <= WIDTH else "object | Unset = UNSET"


# --- expr/_generated.py ---------------------------------------------------------------------------


def render_expr(scan: Scan, history: Sequence[Scan]) -> str:
    """The source of `adk_fluent/expr/_generated.py`; `history` is the stored scans, oldest first."""
    agent, workflow = _method_shapes(scan, ["LlmAgent"]), _method_shapes(scan, WORKFLOWS)
    plain = [s for s in [*agent, *workflow] if not s.alias]
    aliases = {s.alias: "adk_fluent.ir._generated" for s in [*agent, *workflow] if s.alias}
    types = _imports_of((s.item or s.type for s in plain), scan, Self="typing", **aliases)
    runtime = {"typing": ["TYPE_CHECKING"]}
    parts = [
        _header(scan, "Builder methods that set one ADK field each.")
        + _runtime_imports(runtime)
        + "\n\nif TYPE_CHECKING:\n"
        + imports(types, "    "),
        _BASE,
        _mixin("AgentMethods", "`Agent`", 'Agent("a")', "Agent", agent, _since(scan, history, ["LlmAgent"])),
        _mixin(
            "WorkflowMethods",
            "`Pipeline`, `FanOut` and `Loop`",
            'Pipeline(Agent("a"), Agent("b"))',
            "Agent, Pipeline",
            workflow,
            _since(scan, history, WORKFLOWS),
        ),
    ]
    return "\n\n\n".join(parts) + "\n"


_BASE = '''\
class _SetsFields:
    """What the methods below need of the expression class they are mixed into."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _set(self, **fields: object) -> Self:
            """The expression with these fields of its node replaced."""
            raise NotImplementedError

        def _append(self, field: str, *values: object) -> Self:
            """The expression with `values` added to a tuple field of its node."""
            raise NotImplementedError'''


def _since(scan: Scan, history: Sequence[Scan], adk_classes: Sequence[str]) -> dict[str, str]:
    """Field -> first release known to have it on all `adk_classes`, for fields the oldest does not have."""
    found: dict[str, str] = {}
    for known in reversed([*history, scan]):
        for name in set.intersection(*({f.name for f in known.classes[c]} for c in adk_classes)):
            found[name] = known.adk_version
    oldest = history[0].adk_version if history else scan.adk_version
    return {name: version for name, version in found.items() if version != oldest}


def _mixin(
    name: str, owner: str, receiver: str, imported: str, shapes: Iterable[Shape], since: Mapping[str, str]
) -> str:
    head = (
        f'class {name}(_SetsFields):\n    """Methods of {owner} that set ADK fields."""\n\n    __slots__ = ()'
    )
    return "\n\n".join([head, *(_method(s, receiver, imported, since.get(s.field.name)) for s in shapes)])


def method_name(field: str) -> str:
    """The builder method that sets an ADK field.

    >>> method_name("before_model_callback"), method_name("description"), method_name("planner")
    ('before_model', 'describe', 'planner')
    """
    return METHOD_NAMES.get(field, field.removesuffix("_callback"))


def _method(shaped: Shape, receiver: str, imported: str, since: str | None) -> str:
    field, several = shaped.field.name, shaped.item is not None
    doc = FIELD_DOCS.get(field) or _unknown(shaped)
    if several:
        parameter = f"*{'callbacks' if shaped.alias else field}: {shaped.spelled}"
        body = f'return self._append("{field}", *{"callbacks" if shaped.alias else field})'
    else:
        switch = (
            " = True" if "bool" in _names(shaped.type) and shaped.field.default in {"False", "None"} else ""
        )
        parameter = f"{field}: {shaped.spelled}{switch}"
        body = f"return self._set({field}={field})"
    paragraphs = [doc.summary, *doc.notes, _reference(shaped, since)]
    text = docstring(paragraphs, _example(shaped, doc, receiver, imported), "        ")
    return f"{signature(method_name(field), parameter, '    ')}\n{text}\n        {body}"


def _reference(shaped: Shape, since: str | None) -> str:
    """Which ADK field a method sets, of what type and default, and which ADK it needs."""
    field, default = shaped.field, shaped.field.default
    if shaped.item is not None:
        told = f"Adds to ADK's `{field.name}`; further calls add more, and they are called in that order."
        told = told if shaped.alias else f"Adds to ADK's `{field.name}`, a list of `{shaped.spelled}`."
    else:
        told = f"Sets ADK's `{field.name}`, of type `{shaped.spelled}`"
        told += "." if default is None else f"; ADK's default is `{default}`."
    return f"{told} Needs google-adk {since} or another release that has this field." if since else told


def _unknown(shaped: Shape) -> FieldDoc:
    """For a field that the table does not know yet: a generic sentence and the simplest fitting value."""
    names = set(_names(shaped.type))
    samples = {"bool": "True", "str": '"text"', "int": "1", "float": "1.0"}
    argument = next((v for n, v in samples.items() if n in names), "None")
    return FieldDoc(f"Set the `{shaped.field.name}` that ADK gives its agents.", argument)


def _example(shaped: Shape, doc: FieldDoc, receiver: str, imported: str) -> list[str]:
    setup = [f"from adk_fluent import {imported}", *doc.setup]
    prompts = [f"{'...' if line.startswith(' ') else '>>>'} {line}" for line in setup]
    path = f"{receiver}.{method_name(shaped.field.name)}({doc.argument}).node.{shaped.field.name}"
    try:
        value: object = ast.literal_eval(doc.argument)
    except ValueError:  # not a literal: compare instead of printing
        expected = f"({doc.argument},)" if shaped.item is not None else doc.argument
        return [*prompts, f">>> {path} == {expected}", "True"]
    if shaped.item is not None:
        value = (value,)
    return [
        *prompts,
        f">>> {path}{' is None' if value is None else ''}",
        "True" if value is None else repr(value),
    ]
