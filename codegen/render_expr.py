"""A scan as the source of `adk_fluent/expr/_generated.py`.

The text is laid out as the formatter would, so generating needs no further tool.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adk_fluent.tide.methods import method_name
from adk_fluent.tide.scan import Scan

from .fielddocs import FIELD_DOCS, FieldDoc
from .shapes import Shape, imports_of, method_shapes, names_in, shared_fields
from .source import docstring, header, imports, signature


@dataclass(frozen=True, slots=True)
class Mixin:
    """One generated class: whose methods it holds, and an expression to show them on."""

    name: str
    owner: str
    adk_classes: tuple[str, ...]
    example: str
    example_imports: str


MIXINS = (
    Mixin("AgentMethods", "`Agent`", ("LlmAgent",), 'Agent("a")', "Agent"),
    Mixin(
        "WorkflowMethods",
        "`Pipeline`, `FanOut` and `Loop`",
        ("SequentialAgent", "ParallelAgent", "LoopAgent"),
        'Pipeline(Agent("a"), Agent("b"))',
        "Agent, Pipeline",
    ),
)

_BASE = '''\
    class _SetsFields(Protocol):
        """The methods of the expression class that the methods below call."""

        def _set(self, **fields: object) -> Self: ...

        def _append(self, field: str, *values: object) -> Self: ...

        def _hook(self, field: str, *functions: object) -> Self: ...

else:

    class _SetsFields:
        __slots__ = ()'''


def render_expr(scan: Scan, history: Sequence[Scan]) -> str:
    """One mixin of builder methods per kind of expression.

    `history` holds the scans of older releases, oldest first: the methods for fields that the oldest does
    not have say so.
    """
    shapes = {mixin: method_shapes(scan, mixin.adk_classes) for mixin in MIXINS}
    every = [s for of_mixin in shapes.values() for s in of_mixin]
    extra = {"Self": "typing", "Protocol": "typing"}
    extra |= {s.alias: "adk_fluent.ir._generated" for s in every if s.alias}
    needed = imports_of((s.item or s.type for s in every if not s.alias), scan, extra)
    parts = [
        header(scan.adk_version, "Builder methods that set one ADK field each.")
        + "from typing import TYPE_CHECKING, TypedDict\n\n"
        + f"if TYPE_CHECKING:\n{imports(needed, '    ')}\n\n{_BASE}",
        *(_class(m, of_mixin, _newer_than_oldest(scan, history, m)) for m, of_mixin in shapes.items()),
        _calls(shapes[MIXINS[0]]),
    ]
    return "\n\n\n".join(parts) + "\n"


def _newer_than_oldest(scan: Scan, history: Sequence[Scan], mixin: Mixin) -> dict[str, str]:
    """Field -> sentence on the ADK it needs, for fields that the oldest known release does not have."""
    releases = [*history, scan]
    first: dict[str, str] = {}
    for release in reversed(releases):
        first |= dict.fromkeys(shared_fields(release, mixin.adk_classes), release.adk_version)
    oldest = releases[0].adk_version
    return {
        field: f"Not in google-adk {oldest}: needs a newer one, such as {version}."
        for field, version in first.items()
        if version != oldest
    }


def _class(mixin: Mixin, shapes: Iterable[Shape], needs: Mapping[str, str]) -> str:
    head = f'class {mixin.name}(_SetsFields):\n    """Methods of {mixin.owner} that set ADK fields."""'
    methods = (_method(s, mixin, needs.get(s.field.name)) for s in shapes)
    return "\n\n".join([head, "    __slots__ = ()", *methods])


def _calls(shapes: Iterable[Shape]) -> str:
    head = 'class AgentMethodCalls(TypedDict, total=False):\n    """The methods that a `Preset` may call."""'
    return "\n".join([head, "", *(f"    {method_name(s.field.name)}: object" for s in shapes)])


def _method(shaped: Shape, mixin: Mixin, needs: str | None) -> str:
    field = shaped.field.name
    doc = FIELD_DOCS.get(field) or _unknown(shaped)
    if shaped.item is not None:
        argument = "callbacks" if shaped.alias else field
        add = "_hook" if shaped.alias else "_append"
        parameter, body = f"*{argument}: {shaped.spelled}", f'self.{add}("{field}", *{argument})'
    else:
        default = " = True" if _is_switch(shaped) else ""
        parameter, body = f"{field}: {shaped.spelled}{default}", f"self._set({field}={field})"
    reference = f"{_reference(shaped)} {needs or ''}".strip()
    text = docstring([doc.summary, *doc.notes, reference], _example(shaped, doc, mixin), "        ")
    return f"{signature(method_name(field), parameter, '    ')}\n{text}\n        return {body}"


def _is_switch(shaped: Shape) -> bool:
    """Whether naming the method is enough to say what is wanted: a flag that is off by default."""
    return "bool" in names_in(shaped.type) and shaped.field.default in {"False", "None"}


def _reference(shaped: Shape) -> str:
    """Which ADK field a method sets, of what type and default."""
    field = shaped.field
    if shaped.alias and shaped.item is not None:
        return f"Adds to ADK's `{field.name}`; further calls add more, and all are called in that order."
    if shaped.item is not None:
        return f"Adds to ADK's `{field.name}`, a list of `{shaped.spelled}`."
    told = f"Sets ADK's `{field.name}`, of type `{shaped.spelled}`"
    return f"{told}." if field.default is None else f"{told}; ADK's default is `{field.default}`."


def _unknown(shaped: Shape) -> FieldDoc:
    """For a field that the table does not know yet: a generic sentence and the simplest fitting value."""
    names = set(names_in(shaped.item or shaped.type))
    samples = {"bool": "True", "str": '"text"', "int": "1", "float": "1.0"}
    argument = next((sample for name, sample in samples.items() if name in names), "None")
    return FieldDoc(f"Set what ADK calls `{shaped.field.name}`.", argument)


def _example(shaped: Shape, doc: FieldDoc, mixin: Mixin) -> list[str]:
    setup = [f"from adk_fluent import {mixin.example_imports}", *doc.setup]
    prompts = [f"{'...' if line.startswith(' ') else '>>>'} {line}" for line in setup]
    field = shaped.field.name
    call = f">>> {mixin.example}.{method_name(field)}({doc.argument}).node.{field}"
    return [*prompts, *_shown(call, doc.argument, several=shaped.item is not None)]


def _shown(call: str, argument: str, *, several: bool) -> tuple[str, str]:
    """The call and what the interpreter answers: the value where it prints as written, else a comparison."""
    try:
        value: object = ast.literal_eval(argument)
    except ValueError:  # a name that the setup lines define
        return f"{call} == {f'({argument},)' if several else argument}", "True"
    if several:
        return call, repr((value,))
    return (f"{call} is None", "True") if value is None else (call, repr(value))
