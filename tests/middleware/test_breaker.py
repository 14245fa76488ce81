"""The circuit breaker against a simpler account of what it should do, with a clock of our own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from adk_fluent.middleware.breaker import Breaker

THRESHOLD, RESET = 3, 10.0


class Circuits(RuleBasedStateMachine):
    """Calls that overlap in any way; beside each, what was true when it began."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(THRESHOLD, RESET)
        self.now = 0.0
        self.under_way: list[tuple[int, int]] = []
        self.turns = 0
        self.failures = 0
        self.opened: float | None = None
        self.probing = False

    @rule(seconds=st.sampled_from([0.5, 4.0, RESET]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_call_begins(self) -> None:
        due = self.opened is None or (not self.probing and self.now - self.opened >= RESET)
        ticket = self.breaker.enter(self.now)
        assert (ticket is not None) == due
        if ticket is not None:
            self.probing = self.opened is not None
            self.under_way.append((ticket, self.turns))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), outcome=st.sampled_from(["succeeded", "failed", "abandoned"]))
    def a_call_ends(self, data: st.DataObject, outcome: str) -> None:
        ticket, turns = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        counts = turns == self.turns
        if outcome == "succeeded":
            self.breaker.succeeded(ticket)
            if counts:
                self.failures = 0
                if self.probing:
                    self.opened, self.probing, self.turns = None, False, self.turns + 1
        elif outcome == "failed":
            self.breaker.failed(ticket, self.now)
            if counts:
                self.failures += 1
                if self.probing or self.failures == THRESHOLD:
                    self.opened, self.probing = self.now, False
                    self.failures, self.turns = 0, self.turns + 1
        else:
            self.breaker.abandoned(ticket)
            if counts:
                self.probing = False
        self.agrees()

    def agrees(self) -> None:
        expected = "closed" if self.opened is None else "half-open" if self.probing else "open"
        assert self.breaker.state == expected
        left = 0.0 if self.opened is None else max(0.0, self.opened + RESET - self.now)
        assert self.breaker.left(self.now) == left


TestCircuits = Circuits.TestCase


@given(st.integers(1, 20))
def test_it_opens_at_the_threshold_and_not_before(threshold: int) -> None:
    """So many failures in a row open it; one fewer, or a success among them, does not."""
    breaker = Breaker(threshold, RESET)
    for _ in range(threshold - 1):
        ticket = breaker.enter(0.0)
        assert ticket is not None
        breaker.failed(ticket, 0.0)
    ticket = breaker.enter(0.0)
    assert breaker.state == "closed"
    assert ticket is not None
    breaker.failed(ticket, 0.0)
    assert breaker.state == "open"
    assert breaker.enter(9.9) is None


def test_one_probe_decides() -> None:
    """After the pause one call passes; its failure opens the circuit anew, its success closes it."""
    breaker = Breaker(1, RESET)
    first = breaker.enter(0.0)
    assert first is not None
    breaker.failed(first, 0.0)
    probe = breaker.enter(10.0)
    assert probe is not None
    assert breaker.enter(10.0) is None
    breaker.failed(probe, 11.0)
    assert breaker.enter(20.9) is None
    assert breaker.left(20.9) > 0
    again = breaker.enter(21.0)
    assert again is not None
    breaker.succeeded(again)
    assert breaker.state == "closed"
    assert breaker.idle


def test_a_probe_without_outcome_leaves_the_question_to_the_next() -> None:
    """A probe that is cancelled neither closes nor blocks the circuit."""
    breaker = Breaker(1, RESET)
    first = breaker.enter(0.0)
    assert first is not None
    breaker.failed(first, 0.0)
    probe = breaker.enter(10.0)
    assert probe is not None
    breaker.abandoned(probe)
    assert breaker.state == "open"
    assert breaker.enter(10.0) is not None
