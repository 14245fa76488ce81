"""The waits between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adk_fluent.middleware.backoff import LONGEST, PATIENCE, Backoff

shares = st.floats(0, 1)


@given(st.integers(1, 100), st.floats(0, 100), st.integers(1, 2000), shares)
def test_waits_double_up_to_a_minute(attempts: int, base: float, attempt: int, share: float) -> None:
    """The n-th wait is `base` doubled n - 1 times, no more than a minute; jitter takes at most half off."""
    plain = Backoff(attempts, base, jitter=False).after(attempt)
    varied = Backoff(attempts, base, draw=lambda: share).after(attempt)
    if attempt >= attempts:
        assert plain is None
        assert varied is None
        return
    assert plain is not None
    assert varied is not None
    assert plain == min(LONGEST, base * 2.0 ** (attempt - 1))
    assert plain / 2 <= varied <= plain


@given(st.floats(0, 100), st.integers(1, 9), st.floats(0, PATIENCE), shares)
def test_a_provider_is_never_asked_again_too_early(
    base: float, attempt: int, asked: float, share: float
) -> None:
    """No wait is shorter than what the provider asks for, nor longer than needed by more than `base`."""
    wait = Backoff(10, base, draw=lambda: share).after(attempt, asked)
    own = Backoff(10, base, jitter=False).after(attempt)
    assert wait is not None
    assert own is not None
    assert asked <= wait <= max(asked + base, own)


def test_nobody_waits_an_hour() -> None:
    """A provider that asks for more than two minutes is not waited for."""
    assert Backoff(3, 1.0).after(1, PATIENCE + 1) is None


def test_two_runs_that_fail_together_wait_for_different_times() -> None:
    """Jitter is on by default, and draws anew each time."""
    assert len({Backoff(3, 1.0).after(1) for _ in range(20)}) > 1
