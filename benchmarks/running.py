"""Running agents whose model answers at once."""

from __future__ import annotations

from collections.abc import Iterator

from google.adk.sessions import InMemorySessionService

from benchmarks.by_hand import USER, agents, expression, run, runner
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 101
STEPS = 10


def figures() -> Iterator[Figure]:
    """Ten agents in order against ten in a sequence written by hand, per step."""
    ours, hand, whole = runner(expression(STEPS).build()), runner(agents(STEPS)), expression(STEPS)
    service = InMemorySessionService()

    async def by_hand() -> object:
        events = await run(hand)
        stored = await hand.session_service.list_sessions(app_name=hand.app_name, user_id=USER)
        last = stored.sessions[-1].id
        session = await hand.session_service.get_session(
            app_name=hand.app_name, user_id=USER, session_id=last
        )
        assert session is not None
        await hand.session_service.delete_session(app_name=hand.app_name, user_id=USER, session_id=last)
        return events, session.state

    with event_loop() as blocking:
        yield compare(
            "10 agents on ADK's runner, per agent",
            blocking(lambda: run(ours)),
            blocking(lambda: run(hand)),
            rounds=ROUNDS,
            per=STEPS,
            target=1.03,
        )
        yield compare(
            "the same through run(), with the state after it",
            blocking(lambda: whole.run("go", session_service=service)),
            blocking(by_hand),
            rounds=ROUNDS,
            per=STEPS,
        )
