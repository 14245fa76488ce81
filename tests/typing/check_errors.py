"""Mistakes that a type checker must find. Read by pyright, never run.

Each ignore is needed: pyright reports one that is not, so a mistake that stops being found fails the check.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import adk_fluent
from adk_fluent import (
    Agent,
    FanOut,
    Loop,
    Pipeline,
    Preset,
    Route,
    S,
    gate,
    map_over,
    race,
    tap,
    transfer,
    until,
)
from tests.samples import Invoice, add, is_done

a, b = Agent("a"), Agent("b")
invoice = Agent("invoice").returns(Invoice)

# names that are not there
from adk_fluent import Agnet  # noqa: E402  # pyright: ignore[reportAttributeAccessIssue]  # misspelt
from adk_fluent.ir import AgnetNode  # noqa: E402  # pyright: ignore[reportAttributeAccessIssue]  # misspelt

_ = (Agnet, AgnetNode)

# names and models
_ = Agent()  # pyright: ignore[reportCallIssue]  # no name
_ = Agent(5)  # pyright: ignore[reportArgumentType]  # a name is text
_ = Agent("a", 5)  # pyright: ignore[reportArgumentType]  # a model is a name or a BaseLlm
_ = a.named(None)  # pyright: ignore[reportArgumentType]  # a name is text

# names that do not exist
_ = adk_fluent.Agnet  # pyright: ignore[reportAttributeAccessIssue]  # misspelt
_ = a.instuct("x")  # pyright: ignore[reportAttributeAccessIssue]  # misspelt
_ = (a >> b).instruct("x")  # pyright: ignore[reportAttributeAccessIssue]  # a pipeline has no instruction
_ = (a >> b).returns(Invoice)  # pyright: ignore[reportAttributeAccessIssue]  # only agents answer
_ = (a >> b) @ Invoice  # pyright: ignore[reportOperatorIssue]  # only agents answer

# expressions do not change
a.colour = "red"  # pyright: ignore[reportAttributeAccessIssue]  # no such attribute
a.name = "b"  # pyright: ignore[reportAttributeAccessIssue]  # read-only
a.node = b.node  # pyright: ignore[reportAttributeAccessIssue]  # read-only
a.node.name = "b"  # pyright: ignore[reportAttributeAccessIssue]  # nodes are frozen

# operands
_ = a >> 5  # pyright: ignore[reportOperatorIssue]  # no step
_ = a >> "b"  # pyright: ignore[reportOperatorIssue]  # no step
_ = a >> None  # pyright: ignore[reportOperatorIssue]  # no step
_ = a >> add  # pyright: ignore[reportOperatorIssue]  # not a function of the state
_ = a | 5  # pyright: ignore[reportOperatorIssue]  # no branch
_ = a // "b"  # pyright: ignore[reportOperatorIssue]  # no expression
_ = a * 2.5  # pyright: ignore[reportOperatorIssue]  # a count is whole
_ = a * b  # pyright: ignore[reportOperatorIssue]  # a count is a number
_ = a + b  # pyright: ignore[reportOperatorIssue]  # only transforms add up
_ = S.set(x=1) + a  # pyright: ignore[reportOperatorIssue]  # only transforms add up
_ = a >> {"x": 5}  # pyright: ignore[reportOperatorIssue]  # a branch is an expression

# arguments
_ = a.reads(["k"])  # pyright: ignore[reportDeprecated]  # keys stand one by one
_ = a.reads(["k"]) >> b  # pyright: ignore[reportDeprecated, reportOperatorIssue]  # also to other checkers
_ = a.writes(["k"])  # pyright: ignore[reportDeprecated]  # one key
_ = a.generate(temprature=0.3)  # pyright: ignore[reportCallIssue]  # misspelt
_ = a.generate(temperature="hot")  # pyright: ignore[reportArgumentType]  # a number
_ = Preset(modle="m")  # pyright: ignore[reportCallIssue]  # misspelt
_ = a.instruct(5)  # pyright: ignore[reportArgumentType]  # text or a function
_ = a.returns(5)  # pyright: ignore[reportArgumentType]  # a type
_ = a @ 5  # pyright: ignore[reportOperatorIssue]  # a type
_ = a.returns(Invoice(number=1))  # pyright: ignore[reportArgumentType]  # a type, not a value
_ = a.tool("add")  # pyright: ignore[reportArgumentType]  # a function or a tool
_ = a.tool(b)  # pyright: ignore[reportArgumentType]  # an expression is no tool
_ = a.delegate("b")  # pyright: ignore[reportArgumentType]  # an expression
_ = a.describe(5)  # pyright: ignore[reportArgumentType]  # text
_ = a.include_contents("some")  # pyright: ignore[reportArgumentType]  # one of two words
_ = a.timeout("5")  # pyright: ignore[reportArgumentType]  # a number
_ = a.until("done")  # pyright: ignore[reportArgumentType]  # a function
_ = a.tap(5)  # pyright: ignore[reportArgumentType, reportCallIssue]  # a function
_ = a.use("preset")  # pyright: ignore[reportArgumentType]  # a Preset
_ = Pipeline(5)  # pyright: ignore[reportArgumentType, reportCallIssue]  # no step
_ = FanOut(a, 5)  # pyright: ignore[reportArgumentType, reportCallIssue]  # no branch
_ = Loop(a, max_iterations=None)  # pyright: ignore[reportArgumentType, reportCallIssue]  # a limit is needed
_ = Loop(a).max_iterations("3")  # pyright: ignore[reportArgumentType]  # a number
_ = race("a", "b")  # pyright: ignore[reportArgumentType, reportCallIssue]  # expressions
_ = map_over(5, a)  # pyright: ignore[reportArgumentType, reportCallIssue]  # a key is text
_ = map_over("k", a, "item")  # pyright: ignore[reportCallIssue]  # by keyword only
_ = gate("done")  # pyright: ignore[reportArgumentType]  # a function
_ = tap(a)  # pyright: ignore[reportArgumentType, reportCallIssue]  # a function
_ = transfer(a)  # pyright: ignore[reportArgumentType]  # a name
_ = until(is_done, 5)  # pyright: ignore[reportCallIssue]  # by keyword only

# routes
_ = Route(5)  # pyright: ignore[reportArgumentType]  # a key is text
_ = Route("k").eq("x")  # pyright: ignore[reportCallIssue]  # no branch
_ = Route("k").eq("x", "a")  # pyright: ignore[reportArgumentType]  # a branch is an expression
_ = Route("k").gt(None, a)  # pyright: ignore[reportArgumentType]  # nothing has no order
_ = Route("k").when("x", a)  # pyright: ignore[reportArgumentType]  # a function

# transforms
_ = S.pick(5)  # pyright: ignore[reportArgumentType]  # a key is text
_ = S.rename(a=5)  # pyright: ignore[reportArgumentType]  # a key is text
_ = S.merge("a", "b")  # pyright: ignore[reportCallIssue]  # into is needed
_ = S.counter("n", step="1")  # pyright: ignore[reportArgumentType]  # a number
_ = S.when(5, S.identity())  # pyright: ignore[reportArgumentType]  # a key or a function
_ = S.validate(Invoice(number=1))  # pyright: ignore[reportArgumentType]  # a class
_ = S.guard(is_done)  # pyright: ignore[reportCallIssue]  # a message is needed

# terminals
_ = a.ask()  # pyright: ignore[reportCallIssue]  # no prompt
_ = a.ask("hi", sesion_id="s")  # pyright: ignore[reportCallIssue]  # misspelt
_ = a.ask("hi", user_id=5)  # pyright: ignore[reportArgumentType]  # text
answer: Invoice = a.ask("hi")  # pyright: ignore[reportAssignmentType]  # this agent answers in text
number: str = invoice.ask("hi")  # pyright: ignore[reportAssignmentType]  # this agent answers in invoices
_ = (a >> invoice).ask("hi").upper()  # pyright: ignore[reportAttributeAccessIssue]  # an Invoice is no text
