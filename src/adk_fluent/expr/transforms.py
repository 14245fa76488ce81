"""`S`: steps that change the state between agents, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr import arguments
from adk_fluent.expr.base import Expr, Step
from adk_fluent.ir.functions import NO_ACCESS, UNKNOWN_ACCESS, Access, keys_of, said
from adk_fluent.ir.nodes import CaptureNode, SequenceNode, TransformFn, TransformNode
from adk_fluent.ir.predicates import Predicate, StateView, plain, truth_of
from adk_fluent.middleware.arguments import flag
from adk_fluent.spelling import Namespace
from adk_fluent.state import delta
from adk_fluent.state.operations import StateOperation, changes_of, conditions, shapes, writes
from adk_fluent.state.operations.writes import Fn

if TYPE_CHECKING:
    from pydantic import BaseModel


class Transform(Step):
    """A step that changes state; every `S` factory returns one.

    With `a >> b`, `b` sees the changes of `a`; with `a + b`, both receive the same state. Call a transform,
    or a chain of them, with a state to get the changes it would make: for tests, without a run.

    Example:
        >>> from adk_fluent import S
        >>> S.rename(a="b")({"a": 1})
        {'a': None, 'b': 1}
    """

    __slots__ = ()

    def __call__(self, state: StateView) -> dict[str, Any]:
        """Return the changes that the transform would make in `state`: new values, `None` for a removed key.

        A key that would keep its value is not included. `state` itself does not change.

        Raises:
            TransformError: the transform's function is async, or did not return a dict.
        """
        return changes_of(self.node, state)

    def __add__(self, other: Transform) -> Transform:
        """Run both on the same input.

        On a conflict a replacement (`pick`, `drop`, `rename`) wins over a delta.

        Raises:
            ExpressionError: two deltas, or two renames, write one key.
        """
        if not isinstance(other, Transform):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
            raise ArgumentError(f"+ joins two S transforms, not {arguments.describe(other)}.")
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
        return _step(conditions.Together(steps=steps))


def _together(transform: Transform) -> tuple[TransformNode, ...]:
    (step,) = _steps(transform, "+")
    return step.fn.steps if isinstance(step.fn, conditions.Together) else (step,)


def _steps(expression: Expr[Any], where: str) -> tuple[TransformNode, ...]:
    """The transforms of an expression that consists of S transforms only.

    Raises:
        ArgumentError: it contains another node.
    """
    node = expression.node if isinstance(expression, Expr) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
    steps = node.children if isinstance(node, SequenceNode) else (node,)
    transforms = tuple(step for step in steps if isinstance(step, TransformNode))
    if len(transforms) != len(steps):
        raise ArgumentError(f"{where} takes S transforms only, not {arguments.describe(expression)}.")
    for step in transforms:
        fn = step.fn
        for called in fn.functions if isinstance(fn, StateOperation) else (fn,):
            _plain(called, where)
    return transforms


def _step(operation: StateOperation) -> Transform:
    return Transform.from_node(TransformNode(fn=operation))


def _keys(keys: tuple[str, ...], where: str) -> tuple[str, ...]:
    if not keys:
        raise ExpressionError(f"{where} needs at least one state key.")
    return tuple(arguments.check_key(key, where) for key in keys)


def _fixed(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Copy the values, so that the caller's later changes of a list or dict have no effect."""
    return tuple((key, delta.detached(value)) for key, value in values.items())


def _plain(fn: Any, where: str) -> Any:
    """Return `fn` if it is a function that is not async; its result is used at once.

    Raises:
        ArgumentError: `fn` is async, or not a function.
    """
    return arguments.function(plain(fn, where), where)


def _test(predicate: Predicate | str, where: str) -> Predicate:
    """Return a predicate; a state key becomes the predicate "this key is set and true"."""
    return arguments.observer(_plain(truth_of(predicate, where), where), where)


class S(metaclass=Namespace):
    """Factories of state transforms. Each returns a step for a pipeline.

    Transforms remove session keys only; `app:`, `user:` and `temp:` keys stay. A removed key is absent for
    all later steps.

    Each step is a function, too: called with a state, it returns the changes it would make, with `None` for
    a removed key.

    Example:
        >>> from adk_fluent import Agent, S
        >>> Agent("researcher").writes("findings") >> S.rename(findings="input") >> Agent("writer")
        Pipeline(researcher, rename, writer)
        >>> S.pick("input")({"findings": "f", "input": "i"})
        {'findings': None}
        >>> (S.default(n=1) >> S.counter("n"))({})
        {'n': 2}
    """

    # --- replacements: they decide which keys stay ------------------------------------------------

    @staticmethod
    def pick(*keys: str) -> Transform:
        """Keep only these keys."""
        return _step(shapes.Pick(keys=_keys(keys, "S.pick()")))

    @staticmethod
    def drop(*keys: str) -> Transform:
        """Remove these keys."""
        return _step(shapes.Drop(keys=frozenset(_keys(keys, "S.drop()"))))

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
        return _step(shapes.Rename(pairs=tuple(zip(old_to_new, new, strict=True))))

    # --- deltas: they add keys or change values ---------------------------------------------------

    @staticmethod
    def set(**values: Any) -> Transform:
        """Write these values."""
        _keys(tuple(values), "S.set()")
        return _step(writes.Set(values=_fixed(values)))

    @staticmethod
    def default(**values: Any) -> Transform:
        """Write each of these values if its key is absent."""
        _keys(tuple(values), "S.default()")
        return _step(writes.Default(values=_fixed(values)))

    @staticmethod
    def merge(*keys: str, into: str, fn: Callable[..., Any] | None = None, answer: bool = False) -> Transform:
        """Combine several keys into one.

        With `.show()`, the result is the answer to the user, as text or JSON, unless an agent answers after
        it. Agents find the result in the state only.

        Args:
            into: the state key of the result.
            fn: function of the values in order, with `None` for an absent key. Without it, the values are
                joined as text, one per line, without absent ones.
        """
        names, target = _keys(keys, "S.merge()"), arguments.check_key(into, "S.merge(into=)")
        flag(answer, "S.merge(answer=)")
        combine = None if fn is None else _plain(fn, "S.merge(fn=)")
        return _step(writes.Merge(keys=names, into=target, fn=combine))

    @staticmethod
    def transform(key: str, fn: Callable[[Any], Any]) -> Transform:
        """Replace the value at `key` by `fn(value)`; a missing key raises `MissingKeyError`.

        Args:
            key: the state key.
            fn: a function of the value, or a type that converts it, such as `float`.
        """
        key = arguments.check_key(key, "S.transform()")
        convert = arguments.unary(
            fn if isinstance(fn, type) else _plain(fn, "S.transform()"), "S.transform()"
        )
        return _step(writes.TransformValue(key=key, fn=convert))

    @staticmethod
    def compute(**functions: Callable[[StateView], Any]) -> Transform:
        """Write to each key the result of its function of the state."""
        _keys(tuple(functions), "S.compute()")
        for key, fn in functions.items():
            _plain(fn, f"S.compute({key}=)")
        return _step(writes.Compute(values=tuple(functions.items())))

    @staticmethod
    def fn(fn: TransformFn, *, reads: Iterable[str] = (), writes: Iterable[str] = ()) -> Transform:
        """Run `fn(state) -> dict | None`; declare the keys it reads and writes here, or with `@declares`."""
        run = arguments.function(fn, "S.fn()")
        declared = Access(keys_of(reads, "S.fn()", "reads"), keys_of(writes, "S.fn()", "writes"))
        return _step(Fn(fn=run, declared=declared if declared != NO_ACCESS else said(run) or UNKNOWN_ACCESS))

    @staticmethod
    def accumulate(key: str, *, into: str) -> Transform:
        """Append the value at `key` to the list at `into`."""
        source, target = (
            arguments.check_key(key, "S.accumulate()"),
            arguments.check_key(into, "S.accumulate(into=)"),
        )
        return _step(shapes.Accumulate(key=source, into=target))

    @staticmethod
    def counter(key: str, *, step: float = 1) -> Transform:
        """Add `step` to the number at `key`, which starts at 0."""
        if not isinstance(step, int | float) or isinstance(step, bool) or not isfinite(step):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"S.counter(step=) takes a number, not {arguments.describe(step)}.")
        return _step(writes.Counter(key=arguments.check_key(key, "S.counter()"), step=step))

    @staticmethod
    def history(key: str, *, max_size: int = 10) -> Transform:
        """Append the value at `key` to the list `<key>_history`, which keeps the last `max_size`."""
        if not arguments.positive(max_size):
            raise ArgumentError(f"S.history(max_size=) takes a positive whole number, not {max_size!r}.")
        return _step(shapes.History(key=arguments.check_key(key, "S.history()"), max_size=max_size))

    @staticmethod
    def flatten(key: str) -> Transform:
        """Replace the dict at `key` by one key per leaf: `<key>.<path>`. A `None` gets no key."""
        return _step(shapes.Flatten(key=arguments.check_key(key, "S.flatten()")))

    @staticmethod
    def unflatten() -> Transform:
        """Put the keys that `flatten` made back together. Leaves that were `None` stay out."""
        return _step(shapes.Unflatten())

    @staticmethod
    def zip(*keys: str, into: str) -> Transform:
        """Combine several lists of the same length into one list of rows."""
        names, target = _keys(keys, "S.zip()"), arguments.check_key(into, "S.zip(into=)")
        return _step(shapes.Zip(keys=names, into=target))

    @staticmethod
    def group_by(key: str, fn: Callable[[Any], Any], *, into: str) -> Transform:
        """Sort the items of the list at `key` into a dict of lists by the text of `fn(item)`."""
        key, into = arguments.check_key(key, "S.group_by()"), arguments.check_key(into, "S.group_by(into=)")
        sort = arguments.unary(_plain(fn, "S.group_by()"), "S.group_by()", "a function of an item")
        return _step(shapes.GroupBy(key=key, fn=sort, into=into))

    # --- checks: they stop the run ----------------------------------------------------------------

    @staticmethod
    def guard(predicate: Predicate, message: str) -> Transform:
        """Raise `StateGuardError(message)` unless `predicate(state)` holds."""
        test = _test(predicate, "S.guard()")
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"S.guard() takes a message as text, not {arguments.describe(message)}.")
        return _step(conditions.Guard(test=test, message=message))

    @staticmethod
    def require(*keys: str) -> Transform:
        """Raise `StateGuardError` unless all these keys are set."""
        return _step(conditions.Require(keys=_keys(keys, "S.require()")))

    @staticmethod
    def validate(model: type[BaseModel]) -> Transform:
        """Raise `StateGuardError` unless the state matches the fields of a pydantic model."""
        if not isinstance(model, type) or not hasattr(model, "model_fields"):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(
                f"S.validate() takes a pydantic model class, not {arguments.describe(cast(object, model))}."
            )
        return _step(conditions.Validate(model=model))

    # --- the rest ---------------------------------------------------------------------------------

    @staticmethod
    def log(*keys: str, label: str = "") -> Transform:
        """Log these keys, or the whole state, at INFO on `adk_fluent.state`."""
        names = _keys(keys, "S.log()") if keys else ()
        return _step(conditions.Log(keys=names, label=arguments.text(label, "S.log(label=)")))

    @staticmethod
    def identity() -> Transform:
        """Change nothing."""
        return _step(conditions.Identity())

    @staticmethod
    def when(predicate: Predicate | str, transform: Expr[Any]) -> Transform:
        """Run `transform`, an S transform or a chain of them, only if `predicate(state)` holds.

        Args:
            predicate: a function of the state, or a key that must be set and true.
        """
        test = _test(predicate, "S.when()")
        return _step(conditions.ConditionalTransform(test=test, steps=_steps(transform, "S.when()")))

    @staticmethod
    def branch(key: str, /, **transforms: Expr[Any]) -> Transform:
        """Run the transform named by the value at `key`, or none."""
        _keys(tuple(transforms), "S.branch()")
        cases = tuple((value, _steps(expr, "S.branch()")) for value, expr in transforms.items())
        return _step(conditions.Branch(key=arguments.check_key(key, "S.branch()"), cases=cases))

    @staticmethod
    def capture(key: str) -> Step:
        """Write the text of the latest user message to `key`, for later agents and functions.

        `C.capture` is the same step; `C.capture_turns` writes several turns.
        """
        return Step.from_node(CaptureNode(key=arguments.check_key(key, "S.capture()")))
