"""What is computed without ADK's packages is what they compute."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from google.adk.evaluation.eval_case import IntermediateData, Invocation
from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent.eval.adk_evaluators import calls_match, metric
from adk_fluent.eval.light_service import evaluator_class
from adk_fluent.eval.metrics import TRAITS, PrebuiltMetrics
from adk_fluent.eval.rouge import rouge_1, stem

ENDINGS = (
    *("s", "sses", "ies", "ied", "eed", "ed", "ing", "y", "ational", "tional", "enci", "anci", "izer", "bli"),
    *("alli", "entli", "eli", "ousli", "ization", "ation", "ator", "alism", "iveness", "fulness", "fulli"),
    *("logi", "aliti", "iviti", "biliti", "icate", "ative", "alize", "iciti", "ical", "ful", "ness", "ement"),
    *("sion", "tion", "ance", "ible", "ism", "ous", "ize", "ll", "e", ""),
)
ODD = ["Tickets", "geöffnet", "日本語", "สวัสดี", "a-b", "…", "x_1"]


def joined(*parts: str) -> str:
    """A word of its parts."""
    return "".join(parts)


def called(name: str, number: int) -> types.FunctionCall:
    """A call."""
    return types.FunctionCall(name=name, args={"n": number})


ENDS = st.sampled_from(ENDINGS)
WORDS = st.builds(joined, st.text("abcdeilmnorstuvxyz0", max_size=5), ENDS, ENDS)
TEXTS = st.lists(WORDS | st.sampled_from(ODD), max_size=8)
CALLS = st.lists(st.builds(called, st.sampled_from("ab"), st.integers(0, 1)), max_size=4)


@pytest.mark.newest
@given(WORDS)
def test_stems_are_those_of_nltk(word: str) -> None:
    """Word by word."""
    porter: Any = import_module("nltk.stem.porter").PorterStemmer()
    assert stem(word) == porter.stem(word)


@pytest.mark.newest
@given(TEXTS, TEXTS)
def test_rouge_is_that_of_adk(response: list[str], reference: list[str]) -> None:
    """Text by text, in any script."""
    theirs: Any = import_module("google.adk.evaluation.final_response_match_v1")
    pair = " ".join(response), " ".join(reference)
    assert rouge_1(*pair) == pytest.approx(theirs._calculate_rouge_1_scores(*pair).fmeasure)


@given(CALLS, CALLS, st.sampled_from(["exact", "in_order", "any_order"]))
def test_trajectories_match_as_adk_matches_them(
    did: list[types.FunctionCall], wanted: list[types.FunctionCall], match: Any
) -> None:
    """Where every call names its arguments, our rule is ADK's."""
    evaluator = TrajectoryEvaluator(eval_metric=metric("m", 1.0, match_type=match.upper()))

    def turn(calls: list[types.FunctionCall]) -> list[Invocation]:
        said = types.Content(role="user", parts=[])
        return [Invocation(user_content=said, intermediate_data=IntermediateData(tool_uses=calls))]

    theirs: Any = evaluator.evaluate_invocations(turn(did), turn(wanted))
    assert calls_match(did, wanted, match) is (theirs.overall_score == 1)


@pytest.mark.newest
def test_every_metric_is_one_of_adks() -> None:
    """All that ADK has and a verdict can rest on; what it only measures, reports say by themselves."""
    from google.adk.evaluation.eval_metrics import PrebuiltMetrics as Theirs

    measured = {"tool_call_count_v1", "inference_call_count_v1", "token_usage_v1", "invocation_duration_v1"}
    assert {each.value for each in Theirs} - measured == {each.value for each in PrebuiltMetrics}
    assert set(TRAITS) == set(PrebuiltMetrics)


@pytest.mark.newest
@pytest.mark.parametrize("name", [each for each in PrebuiltMetrics if TRAITS[each].judge != "cloud"])
def test_every_other_metric_runs_without_the_extra(name: str) -> None:
    """Its evaluator can be made of classes that need nothing but ADK."""
    assert evaluator_class(name)
