"""The reader of function bodies: it follows every path and collects the state keys that the function uses.

It is a forward data-flow analysis on the syntax tree. The fact at each point is the set of definite keys
(`There`): keys that every path to this point has written or tested. A statement maps the set before it to the
set after it; paths that meet intersect their sets (`_met`). So a read of a key in the set is safe, and any
other read may find it missing. A search for all `state["key"]` would be simpler, but could not tell a read
that every call needs from one under a test.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from adk_fluent.ir.bodies import Expressions
from adk_fluent.ir.sighting import Sighting, Sightings
from adk_fluent.ir.state_names import NOTHING, There, is_dict_call

_Visitors = Mapping[type[ast.AST], Callable[..., Any]]


class BodyReader(Expressions):
    """Reader of the body of one function."""

    def read(self) -> Sightings:
        """Read the whole body, and return the uses of state that it shows."""
        node = self._node
        if isinstance(node, ast.Lambda):
            self._leave(node.body, NOTHING)
        elif (there := self._block(node.body, NOTHING, sure=True)) is not None:
            self._exits.append((there, frozenset()))
        kept = (_met([there for there, _ in self._exits]) or NOTHING) - self._removed
        given = [frozenset(("", key) for key in keys) for _, keys in self._exits]
        always = {key for _, key in _met(given) or NOTHING}
        return Sightings(
            tuple(self._reads),
            self._found(self._writes, {key for holder, key in kept if not holder}),
            self._found(self._returned, always),
            self._whole,
            self._gives,
            self._returns_known,
            self._by_state and self._whole,
        )

    def _found(self, places: dict[str, list[ast.expr]], always: Iterable[str]) -> tuple[Sighting, ...]:
        always = set(always)
        return tuple(
            dict.fromkeys(
                Sighting(key, self._place(place), always=key in always)
                for key, found in places.items()
                for place in found
            )
        )

    # --- statements -------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], there: There | None, *, sure: bool) -> There | None:
        """The definite keys after some statements; `None` if no path reaches their end."""
        for one in body:
            if there is None:
                return None
            visit = self._STATEMENTS.get(type(one), type(self)._parts)
            there = visit(self, one, there, sure)
        return there

    def _assign(self, node: ast.Assign | ast.AnnAssign, there: There, sure: bool) -> There:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None or (len(targets) == 1 and self._is_alias(targets[0])):
            return there
        there = self._expr(node.value, there, sure=sure)
        for target in targets:
            if isinstance(target, ast.Name) and target.id in self._dicts:
                there = frozenset(one for one in there if one[0] != target.id)
                there = self._made_dict(target.id, node.value, there)
            elif isinstance(target, ast.Subscript) and (holder := self._holder(target.value)) is not None:
                there = self._write(holder, target.slice, node.value, there)
            else:
                there = self._expr(target, there, sure=sure)
        return there

    def _made_dict(self, name: str, value: ast.expr, there: There) -> There:
        if isinstance(value, ast.Dict):
            known = self._literal(name, value, there)
            self._returns_known = self._returns_known and known is not None
            return there if known is None else known
        for keyword in value.keywords if isinstance(value, ast.Call) else ():
            key = ast.copy_location(ast.Constant(keyword.arg), keyword.value)
            there = self._write(name, key, keyword.value, there)
        return there

    def _grow(self, node: ast.AugAssign, there: There, sure: bool) -> There:
        there = self._expr(node.value, there, sure=sure)
        target = node.target
        if isinstance(target, ast.Subscript) and (holder := self._holder(target.value)) is not None:
            if not holder:
                self._read(target.slice, there, self._level(sure))
            return self._write(holder, target.slice, node.value, there)
        return self._expr(target, there, sure=sure)

    def _leave(self, value: ast.expr | None, there: There) -> None:
        """Record an exit of the function, which returns this value."""
        if isinstance(value, ast.IfExp):
            there = self._expr(value.test, there, sure=True)
            yes, no = self._supposing(value.test)
            left, self._left = self._left, True
            self._leave(value.body, there | yes)
            self._leave(value.orelse, there | no)
            self._left = left
            return
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            self._exits.append((there, frozenset()))
        elif isinstance(value, ast.Name) and value.id in self._dicts:
            self._exits.append((there, frozenset(key for holder, key in there if holder == value.id)))
        elif isinstance(value, ast.Dict) or is_dict_call(value):
            before = frozenset(one for one in there if one[0] != "=")
            inside = self._parts(value, before, True)
            made = self._made_dict("=", value, inside)
            self._exits.append((inside, frozenset(key for holder, key in made if holder == "=")))
        else:
            self._returns_known = False
            self._made(value)
            self._exits.append((self._expr(value, there, sure=True), frozenset()))

    def _return(self, node: ast.Return, there: There, sure: bool) -> None:
        if self._depth:
            if node.value is not None:
                self._expr(node.value, there, sure=False)
            return
        self._left = self._left or not sure
        self._leave(node.value, there)

    def _if(self, node: ast.If, there: There, sure: bool) -> There | None:
        there = self._expr(node.test, there, sure=sure)
        yes, no = self._supposing(node.test)
        return _met(
            [
                self._block(node.body, there | yes, sure=False),
                self._block(node.orelse, there | no, sure=False),
            ]
        )

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, there: There, sure: bool) -> There:
        there = self._expr(node.test if isinstance(node, ast.While) else node.iter, there, sure=sure)
        inside = there | (self._supposing(node.test)[0] if isinstance(node, ast.While) else NOTHING)
        self._block(node.body, inside, sure=False)
        self._block(node.orelse, there, sure=False)
        return there

    def _try(self, node: ast.Try | ast.TryStar, there: There, sure: bool) -> There | None:
        caught, self._caught = self._caught, self._caught or bool(node.handlers)
        body = self._block(node.body, there, sure=sure and not node.handlers)
        self._caught = caught
        ends = [self._block(node.orelse, body, sure=False) if body is not None else None]
        ends += [self._block(handler.body, there, sure=False) for handler in node.handlers]
        after = _met(ends)
        finally_ = self._block(node.finalbody, there if after is None else after, sure=sure)
        return None if after is None else finally_

    def _with(self, node: ast.With | ast.AsyncWith, there: There, sure: bool) -> There | None:
        for item in node.items:
            there = self._expr(item.context_expr, there, sure=sure)
        return self._block(node.body, there, sure=sure)

    def _match(self, node: ast.Match, there: There, sure: bool) -> There | None:
        there = self._expr(node.subject, there, sure=sure)
        ends = [self._block(case.body, there, sure=False) for case in node.cases]
        last = node.cases[-1]
        always = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        return _met([*ends, *([] if always else [there])])

    def _assert(self, node: ast.Assert, there: There, sure: bool) -> There:
        return self._expr(node.test, there, sure=sure) | self._supposing(node.test)[0]

    def _rebind(self, node: ast.Global | ast.Nonlocal, there: There, sure: bool) -> There:
        self._by_state = False
        return there

    def _stop(self, node: ast.Raise | ast.Break | ast.Continue, there: There, sure: bool) -> None:
        self._parts(node, there, sure)
        self._left = self._left or not isinstance(node, ast.Raise)

    _STATEMENTS: ClassVar[_Visitors] = {
        ast.Assign: _assign,
        ast.AnnAssign: _assign,
        ast.AugAssign: _grow,
        ast.Return: _return,
        ast.If: _if,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.While: _loop,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Match: _match,
        ast.Assert: _assert,
        ast.Global: _rebind,
        ast.Nonlocal: _rebind,
        ast.Raise: _stop,
        ast.Break: _stop,
        ast.Continue: _stop,
        ast.FunctionDef: Expressions.nested,
        ast.AsyncFunctionDef: Expressions.nested,
        ast.ClassDef: Expressions.nested,
    }


def _met(ends: Sequence[There | None]) -> There | None:
    """The definite keys where several paths meet: those of all paths that reach this point."""
    alive = [end for end in ends if end is not None]
    return alive[0].intersection(*alive[1:]) if alive else None
