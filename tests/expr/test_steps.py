"""`tap`, `gate`, `transfer`, `until`, `timeout`, `@agent`, `Preset`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, Pipeline, Preset, agent, gate, loop_until, tap, transfer, until
from adk_fluent.errors import (
    ArgumentError,
    CompileError,
    CycleError,
    DuplicateNameError,
    ExpressionError,
    InvalidNameError,
)
from adk_fluent.expr.base import Expr, Step
from adk_fluent.ir import GateNode, TapNode, TimeoutNode, TransferNode
from tests.samples import Invoice, add, is_done, is_urgent, log_call, look

a, b = Agent("a"), Agent("b")


def untyped(value: Any) -> Any:
    """`value` as a caller without a type checker sees it."""
    return value


@pytest.mark.parametrize(
    ("step", "node"),
    [
        (tap(look), TapNode(fn=look)),
        (tap(print), TapNode(fn=print)),
        (gate(is_urgent), GateNode(predicate=is_urgent, message="Approval required")),
        (gate(is_urgent, message="Sure?"), GateNode(predicate=is_urgent, message="Sure?")),
        (gate(is_urgent, into="user:ok"), GateNode(predicate=is_urgent, into="user:ok")),
        (transfer("a"), TransferNode(target="a")),
        (transfer("a", condition=is_done), TransferNode(target="a", condition=is_done)),
    ],
)
def test_steps(step: Expr[Any], node: object) -> None:
    """Each function makes its node, a step that says nothing itself."""
    assert step.node == node
    assert type(step) is Step


@pytest.mark.parametrize("seconds", [1, 0.5, 1e6])
def test_timeout(seconds: float) -> None:
    """A time limit wraps any expression."""
    assert (a >> b).timeout(seconds).node == TimeoutNode(body=(a >> b).node, seconds=seconds)
    assert a.timeout(seconds).timeout(9).node == TimeoutNode(body=a.timeout(seconds).node, seconds=9)


TAKES_FUNCTION: list[tuple[Callable[[Any], object], str]] = [
    (untyped(tap), "tap()"),
    (untyped(gate), "gate()"),
    (untyped(until), "until()"),
    (untyped(a).tap, "tap()"),
    (untyped(a).until, "until()"),
    (untyped(a).proceed_if, "proceed_if()"),
    (lambda v: untyped(loop_until)(v, a), "until()"),
    (lambda v: untyped(transfer)("a", condition=v), "transfer(condition=)"),
]
WRONG: list[tuple[Callable[[], object], str]] = [
    *(
        (
            lambda v=value: untyped(a).timeout(v),
            f"timeout() takes a positive number of seconds, not {value!r}.",
        )
        for value in (0, -1, True, None, "5", float("nan"), float("inf"), [1])
    ),
    *(
        (lambda make=make, v=value: make(v), f"{where} takes a function of the state, not {shown}.")
        for make, where in TAKES_FUNCTION
        for value, shown in [
            (5, "int 5"),
            ("key", "str 'key'"),
            (bool, "the class bool"),
            (b, "the expression Agent('b')"),
        ]
    ),
    (lambda: untyped(tap)(None), "tap() takes a function of the state, not NoneType None."),
    (lambda: untyped(gate)(is_done, message=5), "gate(message=) takes text, not 5."),
    (lambda: untyped(gate)(is_done, message=None), "gate(message=) takes text, not None."),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[f"{n}-{m[:30]}" for n, (_, m) in enumerate(WRONG)])
def test_wrong_arguments(make: Callable[[], object], message: str) -> None:
    """Arguments that cannot be called, awaited or printed are refused at once."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (5, "The name of this target must be text, not int: 5."),
        (a, "The name of this target must be text, not Agent: Agent('a')."),
        ("user", "'user' cannot name this target: ADK keeps it for the person. Try 'user_target'."),
        (
            "the agent",
            "'the agent' cannot name this target: ADK wants letters, digits and underscores, not starting "
            "with a digit. Try 'the_agent'.",
        ),
    ],
    ids=["int", "agent", "reserved", "spaces"],
)
def test_transfer_targets_are_names(target: Any, message: str) -> None:
    """A target is the name of an agent; an agent itself, or a name nothing can have, is refused."""
    with pytest.raises(InvalidNameError) as caught:
        transfer(target)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (
            a >> transfer("reviewr") >> Agent("reviewer"),
            CompileError,
            "transfer('reviewr'): nothing in this tree has that name. Did you mean 'reviewer'?",
        ),
        (a >> transfer("nobody"), CompileError, "transfer('nobody'): nothing in this tree has that name."),
        (
            Pipeline("main", a, transfer("main")),
            CycleError,
            "transfer('main') always leads back to itself, so the run would never end. Give it a "
            "condition, or use a loop.",
        ),
        (
            a >> a.instruct("Other."),
            DuplicateNameError,
            "Two different agents are called 'a'. Rename one with .named('a_b').",
        ),
    ],
)
def test_faults_of_the_whole_tree_are_refused_when_compiled(
    expression: Expr[Any], error: type[Exception], message: str
) -> None:
    """Targets that are not there, circles and clashing names are refused when the tree is compiled."""
    with pytest.raises(error) as caught:
        expression.build()
    assert str(caught.value) == message


# --- @agent ---------------------------------------------------------------------------------------


def test_a_function_becomes_an_agent() -> None:
    """The docstring, without its indentation, is the instruction; the result is an expression."""

    @agent("poet", model="m")
    def poet() -> None:
        """Write about {topic}.

        Two lines.
        """

    assert poet == Agent("poet", "m").instruct("Write about {topic}.\n\nTwo lines.")
    assert (poet >> a).node.children[0] == poet.node


def test_an_agent_needs_a_docstring() -> None:
    """Without a docstring there is no instruction, and the error says whose."""

    def silent() -> None: ...

    with pytest.raises(ExpressionError) as caught:
        agent("silent")(silent)
    assert str(caught.value) == "@agent('silent'): the function needs a docstring; it is the instruction."


@pytest.mark.parametrize(
    ("value", "shown"),
    [(5, "int 5"), (Invoice, "the class Invoice"), (a, "the expression Agent('a')"), (None, "NoneType None")],
    ids=["int", "class", "agent", "None"],
)
def test_only_functions_are_decorated(value: Any, shown: str) -> None:
    """Numbers and classes have docstrings too, but they are no instructions."""
    with pytest.raises(ArgumentError) as caught:
        agent("x")(value)
    assert str(caught.value) == f"@agent('x') goes before a function, not {shown}."


def test_a_forgotten_name_is_noticed() -> None:
    """`@agent` without parentheses gets the function where the name belongs, and says so."""
    with pytest.raises(InvalidNameError, match=r"^The name of this agent must be text, not function: "):
        untyped(agent)(look)
    with pytest.raises(InvalidNameError, match="Try 'my_poet'"):
        agent("my poet")


# --- Preset ---------------------------------------------------------------------------------------


def test_a_preset_makes_its_calls_in_order() -> None:
    """A value is one argument, a tuple several, an empty tuple none, a dict keyword arguments."""
    preset = Preset(
        model="m",
        tools=(add, look),
        tool={"tool": add, "require_confirmation": True},
        generate={"temperature": 0},
        before_agent=log_call,
        isolate=(),
    )
    expected = (
        a.model("m")
        .tools(add, look)
        .tool(add, require_confirmation=True)
        .generate(temperature=0)
        .before_agent(log_call)
        .isolate()
    )
    assert a.use(preset) == expected
    assert a == Agent("a")
    assert a.use(Preset()) == a
    assert b.use(Preset(model="x")).use(Preset(model="y")).node.model == "y"


def test_a_preset_is_a_value() -> None:
    """Presets compare and hash by their calls and print as they were written."""
    assert Preset(model="m") == Preset(model="m") != Preset(model="n")
    assert hash(Preset(generate={"stop_sequences": ["x"]})) == hash(
        Preset(generate={"stop_sequences": ["x"]})
    )
    assert repr(Preset(model="m", isolate=())) == "Preset(model='m', isolate=())"


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"instuct": "x"}, "Preset: Agent has no builder method 'instuct'. Did you mean 'instruct'?"),
        ({"zzz": 1}, "Preset: Agent has no builder method 'zzz'."),
        ({"_set": 1}, "Preset: Agent has no builder method '_set'."),
        ({"run": "x"}, "Preset: Agent has no builder method 'run'."),
        ({"timeout": 3}, "Preset: Agent has no builder method 'timeout'. Did you mean 'node_timeout'?"),
        ({"name": "x"}, "Preset: Agent has no builder method 'name'."),
        (
            {"model": ()},
            "Preset(model=): model() does not accept this: missing a required argument: 'model'.",
        ),
        (
            {"model": ("m", "n")},
            "Preset(model=): model() does not accept this: too many positional arguments.",
        ),
        (
            {"instruct": {"text": "x"}},
            "Preset(instruct=): instruct() does not accept this: missing a required argument: 'instruction'.",
        ),
    ],
)
def test_wrong_presets(methods: dict[str, Any], message: str) -> None:
    """Names that are no builder methods, and arguments they do not take, are refused when it is written."""
    with pytest.raises(ExpressionError) as caught:
        Preset(**methods)
    assert str(caught.value) == message


def test_a_wrong_value_in_a_preset_is_refused_by_its_method() -> None:
    """The method that gets the value says what is wrong with it."""
    with pytest.raises(ArgumentError, match=r"^Agent 'a': the model must be a name or a BaseLlm, not int 5"):
        a.use(Preset(model=5))
