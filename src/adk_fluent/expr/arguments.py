"""Checks of arguments: each function returns a valid argument, or raises an error that names it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import UnionType
from typing import Any, Union, cast

from adk_fluent import ir
from adk_fluent.errors import ArgumentError
from adk_fluent.ir import adk_objects, functions, graph, predicates
from adk_fluent.ir.annotations import ContextSpec, InstructionSpec
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.fidelity import LOSS_REMEDY, loss


def describe(value: object) -> str:
    """Describe a value of the wrong type for an error message."""
    if isinstance(getattr(value, "node", None), ir.Node):
        return f"the expression {value!r}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    if isinstance(value, ContextSpec):
        return f"the C spec {value!r:.60}"
    if isinstance(value, InstructionSpec):
        return f"the P prompt {value!r:.60}"
    if inspect.iscoroutine(value):
        return f"the coroutine of {value.__name__}(), which must be awaited"
    name = getattr(value, "name", None)
    if type(value).__module__.startswith("google.adk.") and isinstance(name, str):
        return f"ADK's {type(value).__name__} {name!r}"  # its repr shows every field
    return f"{type(value).__name__} {value!r:.40}"


def unpacked(value: object, method: str) -> str:
    """The hint for a list of functions, tools or agents; empty for other values.

    >>> unpacked([len, max], "tools")
    ' Unpack the list: .tools(*[len, max]).'
    """
    items = list(cast("Iterable[object]", value)) if isinstance(value, list | tuple | set | frozenset) else []
    if not items or not all(callable(item) or hasattr(item, "name") for item in items):
        return ""
    names = (functions.function_name(item, "") or str(getattr(item, "name", "...")) for item in items)
    return f" Unpack the list: .{method}(*[{', '.join(names)}])."


def function(fn: Any, where: str) -> Any:
    """Return `fn` if it is a function.

    Raises:
        ArgumentError: `fn` is something else.
    """
    if not callable(fn) or isinstance(fn, type) or isinstance(getattr(fn, "node", None), ir.Node):
        raise ArgumentError(f"{where} takes a function of the state, not {describe(cast(object, fn))}.")
    return with_argument(fn, where)


def with_argument(fn: Any, where: str) -> Any:
    """Return `fn` unless it is a Python function without a parameter, which cannot receive its value.

    More parameters are allowed here: `.inject` may fill them.

    Raises:
        ArgumentError: `fn` takes no argument, or it is a method of an expression.
    """
    no_method(fn, where)
    code = getattr(fn, "__code__", None)
    if code is None or code.co_argcount > inspect.ismethod(fn) or code.co_flags & inspect.CO_VARARGS:
        return fn
    raise ArgumentError(
        f"{where} calls {functions.function_name(fn, 'the lambda')} with one argument, and it takes none. "
        "Write lambda value: ..., or def f(value)."
    )


def no_method(fn: object, where: str) -> None:
    """Refuse a method of an expression or a conversation, such as `agent.run`, where users pass functions.

    Raises:
        ArgumentError: `fn` is one; the message says what runs the expression as a step.
    """
    owner: object = getattr(fn, "__self__", None)
    if not inspect.ismethod(fn) or not type(owner).__module__.startswith(f"{__package__}."):
        return
    method, name = fn.__name__, getattr(owner, "name", "")
    told = repr(name) if name else f"a {type(owner).__name__}"
    step = name or "the expression"
    raise ArgumentError(
        f"{where} does not take the method {method}() of {told}. To run {step} as a step, write {step} "
        f"alone, without .{method}."
    )


def unary(fn: Any, where: str, what: str = "a function") -> Any:
    """Return `fn` if it can be called with one argument, or if Python cannot tell.

    Raises:
        ArgumentError: `fn` is not a function, or it takes no argument, or needs more.
    """
    if not callable(fn) or isinstance(getattr(fn, "node", None), ir.Node):
        raise ArgumentError(f"{where} takes {what}, not {describe(cast(object, fn))}.")
    no_method(fn, where)
    try:
        inspect.signature(fn).bind(None)
    except ValueError:  # a built-in without a signature
        return fn
    except TypeError:
        shown = fn.__name__ if isinstance(fn, type) else functions.function_name(fn, "the lambda")
        told = f"{where} takes {what}, and {shown} cannot be called with one argument."
        raise ArgumentError(told) from None
    return fn


def counting(value: Any, where: str) -> Any:
    """Return `value` if it is `None`, or a function that counts the tokens of a text at once.

    Raises:
        ArgumentError: it is something else, or it is async.
    """
    return (
        None
        if value is None
        else unary(predicates.plain(value, where), where, "a function that counts tokens")
    )


def text(value: object, where: str) -> str:
    """Return `value` if it is text, which may be empty.

    Raises:
        ArgumentError: `value` is something else.
    """
    if not isinstance(value, str):
        raise ArgumentError(f"{where} takes text, not {describe(value)}.")
    return value


def optional_text(value: object, where: str) -> str | None:
    """Return `value` if it is text or `None`."""
    return None if value is None else text(value, where)


def optional_model(value: Any, where: str) -> Any:
    """Return `value` if it is `None`, the name of a model, or a `BaseLlm`.

    Raises:
        ArgumentError: `value` is something else.
    """
    if value is not None and not adk_objects.is_model(value):
        raise ArgumentError(f"{where} takes a model's name or a BaseLlm, not {describe(value)}.")
    return value


def observer(fn: Any, where: str) -> Any:
    """Return `fn` if it is a function that only reads the state, as predicates and taps must.

    Raises:
        ArgumentError: `fn` is not a function, or it declares that it writes.
    """
    functions.only_reads(function(fn, where), where)
    return fn


def check_key(key: object, where: str) -> str:
    """The state key that `key` names, as text or as a field of a schema.

    Raises:
        ArgumentError: `key` is neither, or empty.
    """
    if isinstance(key, StateFieldRef):
        return key.key
    if not isinstance(key, str) or not key.strip():
        raise ArgumentError(f"{where} takes a state key as text, not {describe(key)}.")
    return key


def positive(value: object) -> bool:
    """True if `value` is a positive whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_schema(schema: object, where: str) -> object:
    """Return `schema` if it is a type; `A | B` becomes `Union[A, B]`, so that equal unions are equal.

    Raises:
        ArgumentError: `schema` is not a type.
    """
    if isinstance(schema, UnionType):
        return Union[schema.__args__]  # noqa: UP007  # its members are a value
    if isinstance(schema, type) or hasattr(schema, "__origin__"):
        return schema
    raise ArgumentError(f"{where} takes a type such as a pydantic model, not {describe(schema)}.")


def check_faithful(schema: object, where: str, who: str = "") -> object:
    """Return `schema` if it is a type whose values survive JSON; `who` begins the error message.

    Raises:
        ArgumentError: `schema` is not a type, or JSON would lose a part of its values.
    """
    if lost := loss(made := check_schema(schema, where)):
        raise ArgumentError(f"{who}{where} cannot take it: {lost}. {LOSS_REMEDY}")
    return made


def words(value: object, where: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple; refuse a single text, which Python treats as a list of letters."""
    given = (
        tuple(cast("Iterable[object]", value)) if isinstance(value, (list, tuple, set, frozenset)) else None
    )
    if given is None or not all(isinstance(each, str) for each in given):
        hint = f"; write [{value!r:.40}]" if isinstance(value, str) else ""
        raise ArgumentError(f"{where} takes a list of words, not {value!r:.40}{hint}.")
    return cast("tuple[str, ...]", given)


def instance(value: object, kind: type, where: str) -> None:
    """Refuse a value that is neither `None` nor an instance of `kind`."""
    if not (value is None or isinstance(value, kind)):
        raise ArgumentError(f"{where} takes {kind.__name__}(...), not {describe(value)}.")


def agent_names(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return names of agents, each once; at least one is required."""
    if not names:
        raise ArgumentError(f"{where} needs at least one agent's name.")
    return tuple(dict.fromkeys(agent_name(name, where) for name in names))


def agent_name(name: object, where: str) -> str:
    """Return `name` if it is a valid name of an agent."""
    if not isinstance(name, str):
        raise ArgumentError(f"{where} takes the names of agents, not {describe(name)}.")
    return graph.check_name(name)


def count(value: object, where: str) -> int:
    """Return `value` if it is a positive whole number."""
    if positive(value):
        return cast(int, value)
    raise ArgumentError(f"{where} takes a positive whole number, not {value!r:.40}.")


def positive_number(value: object, where: str) -> float:
    """Return `value` if it is a number above zero."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return value
    raise ArgumentError(f"{where} takes a positive number, not {value!r:.40}.")


def one_of(value: object, known: tuple[Any, ...], where: str) -> None:
    """Refuse a value that is not in `known`."""
    if value not in known:
        names = [name for name in known if isinstance(name, str)]
        hint = did_you_mean(value, names) if isinstance(value, str) else ""
        raise ArgumentError(f"{where} is one of {', '.join(map(repr, names))}, not {value!r:.40}.{hint}")


def rounds(value: object) -> int:
    """Return a loop's most rounds, if it is a positive whole number."""
    if not positive(value):
        raise ArgumentError(
            f"A loop runs a positive whole number of times, not {value!r}; the default is 10."
        )
    return cast(int, value)


def artifact_steps(expression: object, where: str) -> tuple[ir.ArtifactNode, ...]:
    """The `A` operations of an expression that consists of them only.

    Raises:
        ArgumentError: the value is not an expression, or it contains another node.
    """
    node = getattr(expression, "node", None)
    steps = node.children if isinstance(node, ir.SequenceNode) else (node,)
    found = tuple(step for step in steps if isinstance(step, ir.ArtifactNode))
    if len(found) != len(steps) or not found:
        raise ArgumentError(f"{where} takes A operations only, not {describe(expression)}.")
    return found


def no_step(value: object, where: str) -> ArgumentError:
    """The error for a value that cannot be a step, with a hint at what was meant.

    Args:
        where: the operator or method, for the message.
    """
    hint = f" Did you mean Agent({value!r})?" if isinstance(value, str) else ""
    if isinstance(value, ContextSpec):
        hint = " A C spec belongs to an agent: Agent(...).context(...)."
    if isinstance(value, InstructionSpec):
        hint = " A P prompt belongs to an agent: Agent(...).instruct(...)."
    hint = hint or _one_by_one(value, where)
    return ArgumentError(
        f"{where} takes an expression or a function of the state, not {describe(value)}.{hint}"
    )


def _one_by_one(values: object, where: str) -> str:
    """The hint for a list of expressions: the same without the list; empty for other values."""
    listed = list(cast("Iterable[object]", values)) if isinstance(values, list | tuple | set) else []
    steps: list[Any] = [value for value in listed if isinstance(getattr(value, "node", None), ir.Node)]
    if not steps or len(steps) < len(listed):
        return ""
    names = [step.name or step.node.label for step in steps]
    if len(names) == 1:
        return " Take it out of the list."
    if where in ("Pipeline()", "FanOut()", "race()"):
        return f" Unpack the list: {where[:-1]}*steps)."
    if where in ("|", "//"):
        return f" Write {where} {f' {where} '.join(names)}."
    start, together, in_order = ">> " * (where == ">>"), " | ".join(names), " >> ".join(names)
    return f" Write {start}({together}) to run them at the same time, or {start}{in_order} one after another."
