"""Pipelines of several sizes that the tests of pictures draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adk_fluent import Agent, C, FanOut, Route, S, gate, loop_until, map_over, race
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares


@declares(reads=["score"])
def good_enough(state: object) -> bool:
    """A predicate with a name."""
    return True


@declares(reads=["ticket"])
def over_limit(state: object) -> bool:
    """A predicate with a name."""
    return True


small = (
    Agent("classify", "some-model").instruct("Classify the message.").writes("intent")
    >> Route("intent")
    .eq("booking", Agent("booker").instruct("Book.").reads("intent"))
    .otherwise(Agent("helper").instruct("Help with {intnt}."))
    >> Agent("polish").instruct("Polish the answer.")
)
"""Five steps; `helper` reads a misspelt key."""

middle = (
    Agent("triage").instruct("Which team?").writes("ticket")
    >> S.rename(ticket="ticket", lang="language")
    >> (Agent("tone").writes("tone") | Agent("sentiment").writes("mood") | Agent("language").writes("lang"))
    >> Route("ticket")
    .eq("booking", Agent("booker").instruct("{ticket} {tone}").writes("reply") >> gate(over_limit))
    .eq("billing", Agent("biller").instruct("{ticket}").writes("reply") // Agent("human").writes("reply"))
    .otherwise(race(Agent("fast").writes("reply"), Agent("deep").writes("reply")))
    >> loop_until(
        good_enough,
        Agent("writer").instruct("Improve {reply} in {lang}.").writes("reply")
        >> Agent("critic").instruct("Score {reply}").writes("score"),
        max_iterations=3,
    )
    >> Agent("answer").instruct("Say {reply} in {lang}, {tone}.").context(C.none())
)
"""About fifteen steps, one of most kinds."""

TOPICS = ["history", "law", "market", "press", "science", "sport", "travel", "weather", "money", "food"]


def _large() -> Expr[Any]:
    notes = [Agent(f"research_{topic}").instruct("{request}").writes(f"notes_{topic}") for topic in TOPICS]
    route = Route("lang")
    for lang in ("en", "de", "fr", "es"):
        draft = Agent(f"draft_{lang}").instruct("{notes_law} {notes_market}").writes("draft")
        check = Agent(f"check_{lang}").instruct("Check {draft} {notes_history}").writes("facts")
        route = route.eq(lang, draft >> check >> Agent(f"legal_{lang}").instruct("{draft}").writes("legal"))
    style, grammar = (
        Agent(name).instruct("{draft}").writes(f"{name}_notes") for name in ("style", "grammar")
    )
    editor = Agent("editor").instruct("{draft} {facts?}").writes("draft")
    merge = Agent("merge").instruct("{style_notes} {grammar_notes}").writes("score")
    line = Agent("intake").writes("request") >> S.set(lang="en") >> FanOut(*notes, name="research")
    line = line >> route.otherwise(Agent("draft_other").writes("draft"))
    line = line >> loop_until(good_enough, editor >> (style | grammar) >> merge, max_iterations=4)
    line = line >> map_over("parts", Agent("shorten").instruct("{_item}"), output_key="summaries")
    for number in range(18):
        line = line >> Agent(f"step_{number:02}").instruct("{draft}").writes("draft")
    return line >> Agent("lead").delegate(Agent("expert")) >> race(Agent("one"), Agent("two")).timeout(20)


large = _large()
"""About sixty steps."""

BY_SIZE: Mapping[str, Expr[Any]] = {"small": small, "middle": middle, "large": large}
