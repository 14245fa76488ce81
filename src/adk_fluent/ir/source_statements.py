"""The reader of a function's statements: a forward data-flow analysis on the syntax tree.

The fact at each point is the set of definite keys (`There`): keys that every path to this point has written
or tested. A statement maps the set before it to the set after it; paths that meet intersect their sets
(`_met`). So a read of a key in the set is safe, and any other read may find it missing. A search for all
`state["key"]` would be simpler, but could not tell a read that every call needs from one under a test.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar

from adk_fluent.ir.source_dicts import MADE
from adk_fluent.ir.source_expressions import Expressions
from adk_fluent.ir.state_keys import Sighting, Sightings
from adk_fluent.ir.state_names import NOTHING, There, grows, makes_dict

_Visitors = Mapping[type[ast.AST], Callable[..., Any]]
_Exit = tuple[There, frozenset[str]]


class BodyReader(Expressions):
    """Reader of the body of one function."""

    def _start(self) -> None:
        super()._start()
        self._exits: list[_Exit] = []
        self._breaks: list[There] = []
        self._continues: list[There] = []

    def read(self) -> Sightings:
        """Read the whole body, and return the uses of state that it shows."""
        node = self._node
        if isinstance(node, ast.Lambda):
            self._leave(node.body, NOTHING)
        elif (there := self._block(node.body, NOTHING, sure=True)) is not None:
            self._exits.append((there, frozenset()))
        kept = (_met([there for there, _ in self._exits]) or NOTHING) - self._removed_within
        given = [frozenset(("", key) for key in keys) for _, keys in self._exits]
        returns: dict[str, list[ast.expr]] = {}
        for name in sorted(self._returned):
            for key, places in self._made.get(name, {}).items():
                returns.setdefault(key, []).extend(places)
        return Sightings(
            tuple(self._reads),
            self._found(self._made[""], {key for holder, key in kept if not holder}),
            self._found(returns, {key for _, key in _met(given) or NOTHING}),
            self._whole,
            self._gives,
            self._returns_known and self._returned.isdisjoint(self._open),
            self._by_state and self._whole,
            self._found(self._removals, {key for holder, key in kept if holder == "-"}),
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

    # --- plain statements -------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], there: There | None, *, sure: bool) -> There | None:
        for one in body:
            if there is None:
                return None
            there = self._statement(one, there, sure)
        return there

    def _statement(self, one: ast.stmt, there: There, sure: bool) -> There | None:
        visit = self._STATEMENTS.get(type(one), type(self)._parts)
        return visit(self, one, there, sure)

    def _assign(self, node: ast.Assign | ast.AnnAssign, there: There, sure: bool) -> There:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None or all(map(self._is_alias, targets)):
            return there
        holders = [one.id for one in targets if isinstance(one, ast.Name) and one.id in self._dicts]
        if len(holders) == len(targets) == 1:
            there, found = self._contents(node.value, there, sure)
            return self._put(holders[0], found, _without(there, holders[0]))
        split = [one for target in targets for one in getattr(target, "elts", ()) if self._is_alias(one)]
        values = getattr(node.value, "elts", ()) if split else [node.value]
        for value in values:
            there = there if self._leads_to_state(value) and split else self._expr(value, there, sure=sure)
        for target in targets:
            if isinstance(target, ast.Subscript) and (holder := self._holder(target.value)) is not None:
                there = self._write(holder, target.slice, node.value, there)
            elif not split:
                there = self._expr(target, there, sure=sure)
            if isinstance(target, ast.Name) and target.id in self._dicts:  # two names for one dict
                self._open.add(target.id)
        return there

    def _grow(self, node: ast.AugAssign, there: There, sure: bool) -> There:
        target = node.target
        if grows(node) and (holder := self._holder(target)) is not None:
            there, found = self._contents(node.value, there, sure)
            return self._put(holder, found, there)
        there = self._expr(node.value, there, sure=sure)
        if isinstance(target, ast.Subscript) and (holder := self._holder(target.value)) is not None:
            if not holder:
                self._read(target.slice, there, self._level(sure))
            return self._write(holder, target.slice, node.value, there)
        return self._expr(target, there, sure=sure)

    def _assert(self, node: ast.Assert, there: There, sure: bool) -> There:
        return self._expr(node.test, there, sure=sure) | self._supposing(node.test)[0]

    def _rebind(self, node: ast.Global | ast.Nonlocal, there: There, sure: bool) -> There:
        self._by_state = False
        return there

    # --- ways out ---------------------------------------------------------------------------------

    def _leave(self, value: ast.expr | None, there: There) -> None:
        """Record an exit of the function, which returns this value."""
        if isinstance(value, ast.IfExp):
            there = self._expr(value.test, there, sure=True)
            yes, no = self._supposing(value.test)
            left, self._left = self._left, True
            self._leave(value.body, there | yes)
            self._leave(value.orelse, there | no)
            self._left = left
        elif value is None or (isinstance(value, ast.Constant) and value.value is None):
            self._exits.append((there, frozenset()))
        elif isinstance(value, ast.Name) and value.id in self._dicts:
            self._returned.add(value.id)
            self._exits.append((there, frozenset(key for holder, key in there if holder == value.id)))
        elif makes_dict(value):
            self._returned.add(MADE)
            inside, found = self._contents(value, there, True)
            made = self._put(MADE, found, _without(inside, MADE))
            self._exits.append((inside, frozenset(key for holder, key in made if holder == MADE)))
        else:
            self._returns_known = False
            self._judge(value)
            self._exits.append((self._emit(value, self._expr(value, there, sure=True)), frozenset()))

    def _return(self, node: ast.Return, there: There, sure: bool) -> None:
        if not self._depth:
            self._left = self._left or not sure
            return self._leave(node.value, there)
        there = there if node.value is None else self._expr(node.value, there, sure=False)
        self._exits.append((there, frozenset()))
        return None

    def _stop(self, node: ast.Raise | ast.Break | ast.Continue, there: There, sure: bool) -> None:
        there = self._parts(node, there, sure)
        self._skipped = self._skipped or not isinstance(node, ast.Raise)
        if not isinstance(node, ast.Raise):
            (self._breaks if isinstance(node, ast.Break) else self._continues).append(there)

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, there: There) -> There:
        kept = self._exits, self._breaks, self._continues, self._left, self._skipped
        self._exits, self._breaks, self._continues = [], [], []
        end = self._block(node.body, there, sure=False)
        ends = [*(there for there, _ in self._exits), end]
        self._exits, self._breaks, self._continues, self._left, self._skipped = kept
        made = (_met(ends) or NOTHING) - self._removed_within
        is_generator = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))
        return NOTHING if is_generator else frozenset(one for one in made - there if not one[0])

    # --- branches ---------------------------------------------------------------------------------

    def _if(self, node: ast.If, there: There, sure: bool) -> There | None:
        there = self._expr(node.test, there, sure=sure)
        yes, no = self._supposing(node.test)
        return _met(
            [
                self._block(node.body, there | yes, sure=False),
                self._block(node.orelse, there | no, sure=False),
            ]
        )

    def _match(self, node: ast.Match, there: There, sure: bool) -> There | None:
        there = self._expr(node.subject, there, sure=sure)
        ends: list[There | None] = []
        for case in node.cases:
            inside = there
            if case.guard is not None:
                inside = self._expr(case.guard, there, sure=False) | self._supposing(case.guard)[0]
            ends.append(self._block(case.body, inside, sure=False))
        last = node.cases[-1]
        always = last.guard is None and _takes_all(last.pattern)
        return _met([*ends, *([] if always else [there])])

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, there: There, sure: bool) -> There | None:
        kept = self._breaks, self._continues, self._skipped
        self._breaks, self._continues = [], []
        there = self._expr(node.test if isinstance(node, ast.While) else node.iter, there, sure=sure)
        rounds = self._rounds(node.target, node.iter) if isinstance(node, ast.For) else None
        stored = {name for part in node.body for name in _stored_in(part)}
        if rounds is not None and not any(stored & names.keys() for names in rounds):
            end: There | None = there
            for names in rounds:
                with self._meaning_of(names):
                    end = self._round(node.body, end, sure)
        else:
            end = self._unknown_rounds(node, there, sure)
        ends = [self._block(node.orelse, end, sure=False), *self._breaks]
        self._breaks, self._continues, self._skipped = kept
        return _met(ends)

    def _unknown_rounds(
        self, node: ast.For | ast.AsyncFor | ast.While, there: There, sure: bool
    ) -> There | None:
        yes = no = NOTHING
        forever = False
        if isinstance(node, ast.While):
            yes, no = self._supposing(node.test)
            forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        else:
            there = self._expr(node.target, there, sure=False) & there
        mark = len(self._removed)
        end = self._round(node.body, there | yes, sure and forever)
        if len(self._removed) > mark:  # the next round lacks what this one has removed
            there = self._since(mark, there)
            end = self._round(node.body, there | yes, sure and forever)
        if forever:
            return None
        return (_met([there, end]) or NOTHING) | no

    def _round(self, body: Sequence[ast.stmt], there: There | None, sure: bool) -> There | None:
        end = self._block(body, there, sure=sure)
        ends = [end, *self._continues]
        self._continues = []
        return _met(ends)

    # --- exceptions -------------------------------------------------------------------------------

    def _try(self, node: ast.Try | ast.TryStar, there: There, sure: bool) -> There | None:
        ways: tuple[list[Any], ...] = (self._exits, self._breaks, self._continues)
        marks = [len(one) for one in ways]
        caught, self._caught = self._caught, self._caught or any(map(self._catches_missing, node.handlers))
        thrown, body = self._tried(node, there, sure)
        self._caught = caught
        ends = [self._block(node.orelse, body, sure=False)]
        ends += [self._block(handler.body, thrown, sure=False) for handler in node.handlers]
        after = _met(ends)
        if not node.finalbody:
            return after
        for way, mark in zip(ways, marks, strict=True):
            left, way[mark:] = way[mark:], []
            way += [end for one in left if (end := self._through(node.finalbody, one)) is not None]
        finally_ = self._block(node.finalbody, thrown if after is None else after, sure=sure)
        return None if after is None else finally_

    def _tried(self, node: ast.Try | ast.TryStar, there: There, sure: bool) -> tuple[There, There | None]:
        """The definite keys where the body of a `try` raises, and those at its end."""
        mark, thrown, quiet = len(self._removed), there, True
        body: There | None = there
        for number, one in enumerate(node.body):
            if body is None:
                break
            body = self._statement(one, body, sure and not (node.handlers and number))
            quiet = quiet and self._is_quiet(one)
            thrown = body if quiet and body is not None else thrown
        return self._since(mark, thrown), body

    def _through(self, body: Sequence[ast.stmt], way: There | _Exit) -> There | _Exit | None:
        """A way out of a `try` after the `finally` block; `None` if that block leaves in another way."""
        there, keys = way if isinstance(way, tuple) else (way, None)
        end = self._block(body, there, sure=False)
        return end if end is None or keys is None else (end, keys)

    def _is_quiet(self, node: ast.stmt) -> bool:
        """True for an assignment that cannot raise."""
        if not isinstance(node, ast.Assign):
            return False
        plain = isinstance(node.value, ast.Constant) or (
            isinstance(node.value, ast.List | ast.Dict) and ast.unparse(node.value) in ("[]", "{}")
        )
        return plain and all(
            isinstance(one, ast.Name)
            or (
                isinstance(one, ast.Subscript)
                and self._holder(one.value) is not None
                and self._key(one.slice)
            )
            for one in node.targets
        )

    def _catches_missing(self, handler: ast.ExceptHandler) -> bool:
        """True unless a handler certainly lets the `KeyError` of a missing key pass."""
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        values = [None if one is None else self._value(one) for one in kinds]
        return any(not isinstance(one, type) or issubclass(KeyError, one) for one in values)

    def _with(self, node: ast.With | ast.AsyncWith, there: There, sure: bool) -> There | None:
        mark, before = len(self._removed), there
        for item in node.items:
            there = self._expr(item.context_expr, there, sure=sure)
            if item.optional_vars is not None:
                there = self._expr(item.optional_vars, there, sure=sure)
        if not any(self._swallows(item.context_expr) for item in node.items):
            return self._block(node.body, there, sure=sure)
        caught, self._caught = self._caught, True
        end = self._block(node.body, there, sure=False)
        self._caught = caught
        return _met([self._since(mark, before), end])

    def _swallows(self, node: ast.expr) -> bool:
        """True if the source of a context manager shows that it may swallow an exception of its body."""
        maker = self._value(node.func) if isinstance(node, ast.Call) else self._value(node)
        function = inspect.unwrap(maker) if callable(maker) else maker
        if isinstance(function, FunctionType) and function is not maker:  # of `@contextmanager`
            source = self._around.source(function)
            tries = [one for one in ast.walk(source) if isinstance(one, ast.Try)] if source else []
            return any(one.handlers and _yields(one) for one in tries)
        kind = maker if isinstance(maker, type) else type(maker)
        leave = getattr(kind, "__exit__", None) or getattr(kind, "__aexit__", None)
        if kind is contextlib.suppress or not isinstance(leave, FunctionType):
            return kind is contextlib.suppress
        source = self._around.source(leave)
        returned = [one.value for one in ast.walk(source) if isinstance(one, ast.Return)] if source else []
        return any(one is not None and not _is_false(one) for one in returned)

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


def _without(there: There, holder: str) -> There:
    return frozenset(one for one in there if one[0].lstrip("?") != holder)


def _takes_all(pattern: ast.pattern) -> bool:
    """True for a pattern that matches every value: `_`, a name, or one of these after `|` or before `as`."""
    if isinstance(pattern, ast.MatchOr):
        return any(map(_takes_all, pattern.patterns))
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _takes_all(pattern.pattern))


def _stored_in(node: ast.stmt) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id


def _yields(node: ast.Try) -> bool:
    return any(isinstance(one, ast.Yield) for part in node.body for one in ast.walk(part))


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
