"""Python source as text: calls and chains of calls, broken into lines as formatters do it."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import groupby
from keyword import iskeyword
from typing import Any, Final, NamedTuple, Protocol

from adk_fluent.ir.base import Node

WIDTH: Final = 88
"""Characters of a line, as Black and Ruff have it by default."""
_HOMES: Final = (
    "adk_fluent",
    *(
        f"adk_fluent.{name}"
        for name in ("state", "content", "config", "middleware", "cost", "distributed", "a2a", "ir")
    ),
)
"""Where users import from, the nearest first."""
_BUILTINS: Final = frozenset(dir(builtins))


class SourceCall(NamedTuple):
    """A call as source: what is called, and its arguments."""

    called: str
    arguments: tuple[str, ...] = ()


class OperatorChain(NamedTuple):
    """Operands with an operator between them, or one alone."""

    operands: tuple[str, ...]
    sign: str = ""


Chain = Sequence[SourceCall | OperatorChain]
"""What begins an expression, a call or operands, with the method calls behind it."""


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


def named(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Arguments by name; those whose name is none of Python's stand in a dict.

    >>> named([("a", "1"), ("user:b", "2")])
    ('a=1', '**{"user:b": 2}')
    """
    shown: list[str] = []
    for plain, some in groupby(pairs, key=lambda pair: pair[0].isidentifier() and not iskeyword(pair[0])):
        if plain:
            shown += [f"{name}={value}" for name, value in some]
        else:
            shown.append(f"**{{{', '.join(f'{text(name)}: {value}' for name, value in some)}}}")
    return tuple(shown)


def flat(chain: Chain) -> str:
    """A chain on one line."""
    return "".join(_flat(part, alone=len(chain) == 1) for part in chain)


def _flat(part: SourceCall | OperatorChain, *, alone: bool) -> str:
    if isinstance(part, SourceCall):
        return f"{part.called}({', '.join(part.arguments)})"
    joined = f" {part.sign} ".join(part.operands)
    return joined if alone or len(part.operands) == 1 else f"({joined})"


def _broken(part: SourceCall | OperatorChain, indent: str) -> str:
    """A call over several lines: its arguments on a line of their own if they fit, else one each."""
    inner = f"{indent}    "
    if isinstance(part, OperatorChain):
        return f"(\n{inner}{f'{chr(10)}{inner}{part.sign} '.join(part.operands)}\n{indent})"
    together = f"{inner}{', '.join(part.arguments)}"
    if len(together) <= WIDTH and "\n" not in together:
        return f"{part.called}(\n{together}\n{indent})"
    return "\n".join([f"{part.called}(", *(f"{inner}{one}," for one in part.arguments), f"{indent})"])


def _fitting(part: SourceCall | OperatorChain, indent: str, room: int, *, alone: bool = False) -> str:
    one_line = _flat(part, alone=alone)
    fits = len(one_line) <= room and "\n" not in one_line
    if isinstance(part, OperatorChain):
        return one_line if fits or len(part.operands) == 1 else _broken(part, indent)
    hugs = len(part.arguments) == 1 and part.arguments[0].startswith('"""')
    return one_line if hugs or not part.arguments or fits else _broken(part, indent)


def assignment(name: str, chain: Chain) -> str:
    """`name = first(...).second(...)`, on one line or with a call on each."""
    one_line = f"{name} = {flat(chain)}"
    if len(one_line) <= WIDTH and "\n" not in one_line:
        return one_line
    if len(chain) == 1:
        return f"{name} = {_fitting(chain[0], '', WIDTH - len(name) - 3, alone=True)}"
    if len(chain) == 2:
        start = _flat(chain[0], alone=False)
        return f"{name} = {start}{_fitting(chain[1], '', WIDTH - len(name) - 3 - len(start))}"
    lines = [_fitting(part, "    ", WIDTH - 4) for part in chain]
    return "\n".join([f"{name} = (", *(f"    {line}" for line in lines), ")"])


def imports(names: Iterable[tuple[str, str, str]]) -> str:
    """Import lines for `(module, name, alias)`, sorted; those of the project itself stand apart, below.

    Those of the standard library stand above. A module whose name is none of Python's, as of `01_shop.py`,
    is looked up by name.

    >>> print(imports([("01_shop", "pay", "pay")]))
    import importlib
    <BLANKLINE>
    pay = importlib.import_module("01_shop").pay
    """
    by_module: dict[str, set[str]] = {}
    looked_up: list[str] = []
    for module, name, alias in sorted(names):
        if not all(part.isidentifier() and not iskeyword(part) for part in module.split(".")):
            looked_up.append(f"{alias} = importlib.import_module({text(module)}).{name}")
            continue
        by_module.setdefault(module, set()).add(name if name == alias else f"{name} as {alias}")
    groups: dict[str, list[str]] = {"standard": [], "known": [], "own": []}
    for module in sorted(by_module, key=str.lower):
        order = sorted(by_module[module], key=lambda one: (one.islower(), one.lower()))
        line = f"from {module} import {', '.join(order)}"
        if len(line) > WIDTH:
            line = f"from {module} import (\n{''.join(f'    {one},{chr(10)}' for one in order)})"
        groups[_group(module.partition(".")[0])].append(line)
    if looked_up:
        groups["standard"].insert(0, "import importlib")
    blocks = ["\n".join(group) for group in (*groups.values(), looked_up) if group]
    return "\n\n".join(blocks)


def _group(package: str) -> str:
    import sys

    if package in sys.stdlib_module_names:
        return "standard"
    return "known" if package in ("adk_fluent", "google", "pydantic") else "own"


# --- with what values are written -----------------------------------------------------------------


class Unwritable(Exception):
    """A value that source cannot say."""


class NameTable:
    """The names of one module: what it imports, and its variables."""

    def __init__(self) -> None:
        self.imported: dict[str, tuple[str, str]] = {}
        self._taken = {"pipeline", "root_agent", "app", *_BUILTINS}

    def free(self, wanted: str) -> str:
        """A variable that is not taken yet, of a name like this."""
        name = re.sub(r"\W", "_", wanted) or "step"
        name = name if name.isidentifier() else f"_{name}"
        candidate, count = name, 1
        while candidate in self._taken or candidate in self.imported or iskeyword(candidate):
            count += 1
            candidate = f"{name}_agent" if count == 2 else f"{name}_agent_{count}"
        self._taken.add(candidate)
        return candidate

    def use(self, module: str, name: str) -> str:
        """The name under which something is imported."""
        module = _public(module, name)
        alias, count = name, 1
        while (alias in self._taken and alias not in _BUILTINS) or (
            self.imported.get(alias, (module, name)) != (module, name)
        ):
            count += 1
            alias = f"native_{name}" if count == 2 else f"native_{name}_{count}"
        self.imported[alias] = (module, name)
        return alias

    def ref(self, path: str) -> str:
        """A reference to `module:name.more`, whose name is imported."""
        module, _, qualified = path.partition(":")
        if module == "builtins":
            return qualified
        first = re.match(r"\w+", qualified)
        name = qualified if first is None else first.group()
        return self.use(module, name) + qualified[len(name) :]


class Writing(Protocol):
    """What a value is written with."""

    names: NameTable
    copies: bool

    def value(self, value: Any) -> str:
        """A value as source; raises `Unwritable`."""
        ...

    def step(self, node: Node) -> str:
        """A node as source: a variable, or what stands in its place."""
        ...


def _public(module: str, name: str) -> str:
    """The package that gives out what a module of ADK's, or of ours, defines."""
    held = getattr(sys.modules.get(module), name, None)
    return next((home for home in _homes(module) if getattr(import_module(home), name, None) is held), module)


def _homes(module: str) -> Iterator[str]:
    if module.startswith("google.adk."):
        yield ".".join(module.split(".")[:3])
    elif module.startswith("adk_fluent."):
        yield from _HOMES
