"""Python source as text: calls and chains of calls, broken into lines as formatters do it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

WIDTH: Final = 88
"""Characters of a line, as Black and Ruff have it by default."""


class Call(NamedTuple):
    """A call as source: what is called, and its arguments."""

    called: str
    arguments: tuple[str, ...] = ()


def text(value: str) -> str:
    """A string as source, in double quotes where that needs no escapes; one of several lines as a block.

    >>> print(text("Say 'hi'."))
    "Say 'hi'."
    """
    plain = all(char.isprintable() or char == "\n" for char in value)
    if plain and value.count("\n") > 1 and value[-1] != '"' and '"""' not in value and "\\" not in value:
        return f'"""{value}"""'
    written = repr(value)
    if written[0] == "'" and '"' not in written:
        return '"' + written[1:-1].replace("\\'", "'") + '"'
    return written


def _flat(call: Call) -> str:
    return f"{call.called}({', '.join(call.arguments)})"


def _broken(call: Call, indent: str) -> str:
    """A call over several lines: its arguments on a line of their own if they fit, else one each."""
    inner = f"{indent}    "
    together = f"{inner}{', '.join(call.arguments)}"
    if len(together) <= WIDTH and "\n" not in together:
        return f"{call.called}(\n{together}\n{indent})"
    return "\n".join([f"{call.called}(", *(f"{inner}{one}," for one in call.arguments), f"{indent})"])


def _fitting(call: Call, indent: str, room: int) -> str:
    flat = _flat(call)
    hugs = len(call.arguments) == 1 and call.arguments[0].startswith('"""')
    lone = len(call.arguments) == 1 and call.arguments[0][:1] in "\"'"
    if hugs or not call.arguments or (len(flat) <= room and "\n" not in flat):
        return flat
    broken = _broken(call, indent)
    return broken if lone or len(call.arguments) > 0 else flat


def assignment(name: str, chain: Sequence[Call]) -> str:
    """`name = first(...).second(...)`, on one line or with a call on each."""
    flat = f"{name} = {''.join(map(_flat, chain))}"
    if len(flat) <= WIDTH and "\n" not in flat:
        return flat
    if len(chain) == 1:
        return f"{name} = {_fitting(chain[0], '', WIDTH - len(name) - 3)}"
    if len(chain) == 2:
        start = _flat(chain[0])
        return f"{name} = {start}{_fitting(chain[1], '', WIDTH - len(name) - 3 - len(start))}"
    lines = [_fitting(call, "    ", WIDTH - 4) for call in chain]
    return "\n".join([f"{name} = (", *(f"    {line}" for line in lines), ")"])


def imports(names: Iterable[tuple[str, str, str]]) -> str:
    """Import lines for `(module, name, alias)`, sorted; those of the project itself stand apart, below."""
    by_module: dict[str, set[str]] = {}
    for module, name, alias in names:
        by_module.setdefault(module, set()).add(name if name == alias else f"{name} as {alias}")
    lines: dict[bool, list[str]] = {False: [], True: []}
    for module in sorted(by_module, key=str.lower):
        order = sorted(by_module[module], key=lambda one: (one.islower(), one.lower()))
        line = f"from {module} import {', '.join(order)}"
        if len(line) > WIDTH:
            line = f"from {module} import (\n{''.join(f'    {one},{chr(10)}' for one in order)})"
        known = module.partition(".")[0] in ("adk_fluent", "google", "pydantic")
        lines[not known].append(line)
    return "\n\n".join("\n".join(group) for group in lines.values() if group)
