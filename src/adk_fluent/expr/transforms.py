"""`S`: steps that reshape the state between agents, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from adk_fluent._namespace import Namespace
from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.base import Expr, Step, describe, function, observer
from adk_fluent.expr.workflow import check_key, positive
from adk_fluent.ir.functions import NO_ACCESS, Access, access, keys_of
from adk_fluent.ir.matching import Predicate, StateView, plain, truth_of
from adk_fluent.ir.nodes import CaptureNode, SequenceNode, TransformFn, TransformNode
from adk_fluent.state.delta import detached
from adk_fluent.state.operations import Operation

if TYPE_CHECKING:
    from pydantic import BaseModel


class Transform(Step):
    """A step that changes state; what every `S` factory gives.

    `a >> b` chains two, so that `b` sees what `a` wrote; `a + b` gives both the same input.
    """

    __slots__ = ()

    def __add__(self, other: Transform) -> Transform:
        """Run both on the same input.

        On a conflict a replacement (`pick`, `drop`, `rename`) wins over a delta.

        Raises:
            ExpressionError: two deltas, or two renames, write one key.
        """
        if not isinstance(other, Transform):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
            raise ArgumentError(f"+ joins two S transforms, not {describe(other)}.")
        steps = (*_together(self), *_together(other))
        written: dict[bool, frozenset[str]] = {}
        for step in steps:
            is_delta = step.semantics == "merge"
            before = written.get(is_delta, frozenset())
            if clash := before & step.writes_keys:
                raise ExpressionError(
                    f"Two transforms joined by + both write {min(clash)!r}; chain them with >> instead."
                )
            written[is_delta] = before | step.writes_keys
        return _step("together", access(*(step.fn for step in steps)), steps=steps)


def _together(transform: Transform) -> tuple[TransformNode, ...]:
    (step,) = _steps(transform, "+")
    if isinstance(step.fn, Operation) and step.fn.name == "together":
        return dict(step.fn.params)["steps"]
    return (step,)


def _steps(expression: Expr[Any], where: str) -> tuple[TransformNode, ...]:
    """The transforms that an expression consists of.

    Raises:
        ArgumentError: it holds something else.
    """
    node = expression.node if isinstance(expression, Expr) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
    steps = node.children if isinstance(node, SequenceNode) else (node,)
    transforms = tuple(step for step in steps if isinstance(step, TransformNode))
    if len(transforms) != len(steps):
        raise ArgumentError(f"{where} takes S transforms only, not {describe(expression)}.")
    for step in transforms:
        inner = dict(step.fn.params).get("fn") if isinstance(step.fn, Operation) else None
        _plain(inner or step.fn, where)
    return transforms


def _step(
    operation: str,
    touches: Access,
    semantics: Any = "merge",
    affected_keys: Iterable[str] | None = None,
    **params: Any,
) -> Transform:
    fn = Operation(operation, tuple(params.items()), touches)
    affected = None if affected_keys is None else frozenset(affected_keys)
    return Transform.from_node(TransformNode(fn=fn, semantics=semantics, affected_keys=affected))


def _keys(keys: tuple[str, ...], where: str) -> tuple[str, ...]:
    if not keys:
        raise ExpressionError(f"{where} needs at least one state key.")
    return tuple(check_key(key, where) for key in keys)


def _fixed(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Values that stay what they are now, whatever the caller does to a list or dict later."""
    return tuple((key, detached(value)) for key, value in values.items())


def _touch(reads: Iterable[str] = (), writes: Iterable[str] = ()) -> Access:
    return Access(frozenset(reads), frozenset(writes))


def _plain(fn: Any, where: str) -> Any:
    """A function that is not async: its result is used at once.

    Raises:
        ArgumentError: it is async, or no function.
    """
    return function(plain(fn, where), where)


def _test(predicate: Predicate | str, where: str) -> tuple[Predicate, Access]:
    """A predicate and what it reads; a key stands for "this key is set and true"."""
    test = observer(_plain(truth_of(predicate, where), where), where)
    seen = access(test)
    return test, Access(seen.reads, reads_known=seen.reads_known)


class S(metaclass=Namespace):
    """State transforms. Each factory gives a step for a pipeline.

    Only session-scoped keys are ever dropped; `app:`, `user:` and `temp:` keys stay. A key that was dropped
    is absent for everything that follows.

    Example:
        >>> from adk_fluent import Agent, S
        >>> Agent("researcher").writes("findings") >> S.rename(findings="input") >> Agent("writer")
        Pipeline(researcher, rename, writer)
    """

    # --- replacements: they decide what stays -----------------------------------------------------

    @staticmethod
    def pick(*keys: str) -> Transform:
        """Keep only these keys."""
        kept = _keys(keys, "S.pick()")
        return _step("pick", _touch(reads=kept), "replace_session", keys=kept)

    @staticmethod
    def drop(*keys: str) -> Transform:
        """Remove these keys."""
        return _step("drop", _touch(), "delete_keys", _keys(keys, "S.drop()"))

    @staticmethod
    def rename(**old_to_new: str) -> Transform:
        """Move values to new keys; a missing old key does nothing.

        Raises:
            ExpressionError: two old keys get one new name.
        """
        _keys(tuple(old_to_new), "S.rename()")
        new = _keys(tuple(old_to_new.values()), "S.rename()")
        if len(set(new)) < len(new):
            raise ExpressionError(f"S.rename() gives two keys the same new name: {old_to_new}.")
        touches = _touch(old_to_new, new)
        pairs = tuple(zip(old_to_new, new, strict=True))
        return _step("rename", touches, "delete_keys", old_to_new, pairs=pairs)

    # --- deltas: they add to what is there --------------------------------------------------------

    @staticmethod
    def set(**values: Any) -> Transform:
        """Write these values."""
        _keys(tuple(values), "S.set()")
        return _step("set", _touch(writes=values), values=_fixed(values))

    @staticmethod
    def default(**values: Any) -> Transform:
        """Write these values where the key is absent."""
        _keys(tuple(values), "S.default()")
        return _step("default", _touch(writes=values), values=_fixed(values))

    @staticmethod
    def merge(*keys: str, into: str, fn: Callable[..., Any] | None = None) -> Transform:
        """Combine several keys into one.

        Args:
            into: where the result goes.
            fn: gets the values in order, `None` for an absent key; without it they are joined as text, one
                per line, absent ones left out.
        """
        names, target = _keys(keys, "S.merge()"), check_key(into, "S.merge(into=)")
        combine = None if fn is None else _plain(fn, "S.merge(fn=)")
        return _step("merge", _touch(names, {target}), keys=names, into=target, fn=combine)

    @staticmethod
    def transform(key: str, fn: Callable[[Any], Any]) -> Transform:
        """Replace the value at `key` by `fn(value)`; a missing key raises `MissingKeyError`."""
        key = check_key(key, "S.transform()")
        touches = _touch({key}, {key})
        return _step("transform", touches, key=key, fn=_plain(fn, "S.transform()"))

    @staticmethod
    def compute(**functions: Callable[[StateView], Any]) -> Transform:
        """Write each key with what its function makes of the state."""
        _keys(tuple(functions), "S.compute()")
        for key, fn in functions.items():
            _plain(fn, f"S.compute({key}=)")
        seen = access(*functions.values())
        touches = Access(seen.reads, frozenset(functions), reads_known=seen.reads_known)
        return _step("compute", touches, values=tuple(functions.items()))

    @staticmethod
    def fn(fn: TransformFn, *, reads: Iterable[str] = (), writes: Iterable[str] = ()) -> Transform:
        """Run `fn(state) -> dict | None`, declaring what it reads and writes, here or with `@declares`."""
        run = function(fn, "S.fn()")
        declared = _touch(keys_of(reads, "S.fn()", "reads"), keys_of(writes, "S.fn()", "writes"))
        return _step("fn", declared if declared != NO_ACCESS else access(run), fn=run)

    @staticmethod
    def accumulate(key: str, *, into: str) -> Transform:
        """Append the value at `key` to the list at `into`."""
        source, target = check_key(key, "S.accumulate()"), check_key(into, "S.accumulate(into=)")
        return _step("accumulate", _touch({source, target}, {target}), key=source, into=target)

    @staticmethod
    def counter(key: str, *, step: float = 1) -> Transform:
        """Add `step` to the number at `key`, which starts at 0."""
        if not isinstance(step, int | float) or isinstance(step, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"S.counter(step=) takes a number, not {describe(step)}.")
        key = check_key(key, "S.counter()")
        return _step("counter", _touch({key}, {key}), key=key, step=step)

    @staticmethod
    def history(key: str, *, max_size: int = 10) -> Transform:
        """Append the value at `key` to the list `<key>_history`, which keeps the last `max_size`."""
        if not positive(max_size):
            raise ArgumentError(f"S.history(max_size=) takes a positive whole number, not {max_size!r}.")
        key = check_key(key, "S.history()")
        into = f"{key}_history"
        return _step("history", _touch({key, into}, {into}), key=key, max_size=max_size)

    @staticmethod
    def flatten(key: str) -> Transform:
        """Replace the dict at `key` by one key per leaf: `<key>.<path>`."""
        key = check_key(key, "S.flatten()")
        touches = Access(frozenset({key}), writes_known=False)
        return _step("flatten", touches, key=key)

    @staticmethod
    def unflatten() -> Transform:
        """Put the keys that `flatten` made back together."""
        return _step("unflatten", Access(reads_known=False, writes_known=False))

    @staticmethod
    def zip(*keys: str, into: str) -> Transform:
        """Make one list of rows of several lists of the same length."""
        names, target = _keys(keys, "S.zip()"), check_key(into, "S.zip(into=)")
        return _step("zip", _touch(names, {target}), keys=names, into=target)

    @staticmethod
    def group_by(key: str, fn: Callable[[Any], Any], *, into: str) -> Transform:
        """Sort the items of the list at `key` into a dict of lists by the text of `fn(item)`."""
        key, into = check_key(key, "S.group_by()"), check_key(into, "S.group_by(into=)")
        touches = _touch({key}, {into})
        return _step("group_by", touches, key=key, fn=_plain(fn, "S.group_by()"), into=into)

    # --- checks: they stop the run ----------------------------------------------------------------

    @staticmethod
    def guard(predicate: Predicate, message: str) -> Transform:
        """Raise `StateGuardError(message)` unless `predicate(state)` holds."""
        test, touches = _test(predicate, "S.guard()")
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"S.guard() takes a message as text, not {describe(message)}.")
        return _step("guard", touches, test=test, message=message)

    @staticmethod
    def require(*keys: str) -> Transform:
        """Raise `StateGuardError` unless all these keys are set."""
        needed = _keys(keys, "S.require()")
        return _step("require", _touch(reads=needed), keys=needed)

    @staticmethod
    def validate(model: type[BaseModel]) -> Transform:
        """Raise `StateGuardError` unless the state fits the fields of a pydantic model."""
        fields = cast("dict[str, object] | None", getattr(model, "model_fields", None))
        if fields is None or not isinstance(model, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(
                f"S.validate() takes a pydantic model class, not {describe(cast(object, model))}."
            )
        return _step("validate", _touch(reads=fields), model=model)

    # --- the rest ---------------------------------------------------------------------------------

    @staticmethod
    def log(*keys: str, label: str = "") -> Transform:
        """Log these keys, or the whole state, at INFO on `adk_fluent.state`."""
        names = _keys(keys, "S.log()") if keys else ()
        return _step("log", Access(frozenset(names), reads_known=bool(names)), keys=names, label=label)

    @staticmethod
    def identity() -> Transform:
        """Change nothing."""
        return _step("identity", _touch())

    @staticmethod
    def when(predicate: Predicate | str, transform: Expr[Any]) -> Transform:
        """Run `transform`, an S transform or a chain of them, only if `predicate(state)` holds.

        Args:
            predicate: a function of the state, or a key that must be set and true.
        """
        test, touches = _test(predicate, "S.when()")
        steps = _steps(transform, "S.when()")
        return _step("when", touches | access(*(step.fn for step in steps)), test=test, steps=steps)

    @staticmethod
    def branch(key: str, /, **transforms: Expr[Any]) -> Transform:
        """Run the transform named by the value at `key`, or none."""
        _keys(tuple(transforms), "S.branch()")
        cases = tuple((value, _steps(expr, "S.branch()")) for value, expr in transforms.items())
        key = check_key(key, "S.branch()")
        touches = _touch({key}) | access(*(s.fn for _, steps in cases for s in steps))
        return _step("branch", touches, key=key, cases=cases)

    @staticmethod
    def capture(key: str) -> Step:
        """Write the text of the latest user message to `key`."""
        return Step.from_node(CaptureNode(key=check_key(key, "S.capture()")))
