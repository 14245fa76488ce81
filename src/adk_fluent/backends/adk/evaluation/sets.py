"""Cases as ADK's `EvalCase`s, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from google.adk.evaluation.eval_case import (
    EvalCase,
    IntermediateData,
    Invocation,
    SessionInput,
    get_all_tool_calls,
)
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.local_eval_sets_manager import convert_eval_set_to_pydantic_schema
from google.genai import types
from pydantic import ValidationError

from adk_fluent.backends.adk.running.convert import knowingly
from adk_fluent.errors import what_happened

if TYPE_CHECKING:
    from adk_fluent.eval.cases import FluentCase, Turn
    from adk_fluent.eval.simulation import UserSimulation

USER: Final = "eval_user"
"""The user of every case; ADK tells the state of a session only where the user is named."""


def eval_case(
    name: str, case: FluentCase, app_name: str, simulation: UserSimulation | None = None
) -> EvalCase:
    """A case as ADK has it; under a simulation its input is only how the user begins.

    A call that may have any arguments has `None` for them.
    """
    session = SessionInput(app_name=app_name, user_id=USER, state=dict(case.initial_state or {}))
    if simulation is not None:
        from google.adk.evaluation.conversation_scenarios import ConversationScenario

        said = case.turns[0].said
        begins = said if isinstance(said, str) else _text(said)
        plan = str(case.metadata.get("conversation_plan") or simulation.plan)
        scenario = ConversationScenario(starting_prompt=begins, conversation_plan=plan)
        return EvalCase(eval_id=name, conversation_scenario=scenario, session_input=session)
    return EvalCase(eval_id=name, conversation=[*map(_invocation, case.turns)], session_input=session)


def _invocation(turn: Turn) -> Invocation:
    said = turn.said
    content = said if isinstance(said, types.Content) else _content(said, "user")
    calls = [types.FunctionCall(name=call.name, args=_args(call.args)) for call in turn.calls or ()]
    return Invocation(
        user_content=content,
        final_response=None if turn.reference is None else _content(turn.reference, "model"),
        intermediate_data=None if turn.calls is None else IntermediateData(tool_uses=calls),
    )


def _args(args: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if args is None else dict(args)


def _content(text: object, role: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=str(text))])


def _text(content: types.Content | None) -> str:
    parts = (content.parts if content else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def eval_set(
    name: str,
    cases: Mapping[str, FluentCase],
    app_name: str,
    simulated: Mapping[str, UserSimulation | None],
) -> EvalSet:
    """Cases as one of ADK's sets, with what they assert of the state at the end as values."""
    made = [eval_case(each, case, app_name, simulated[each]) for each, case in cases.items()]
    for one, case in zip(made, cases.values(), strict=True):
        asserted = case.state_assertions or {}
        one.final_session_state = {str(key): value for key, value in asserted.items() if not callable(value)}
    return EvalSet(eval_set_id=name, name=name, eval_cases=made)


# --- the other way --------------------------------------------------------------------------------


def read_set(data: object, error: Callable[[Sequence[str | int], str], Exception]) -> EvalSet:
    """A set as ADK writes it; also in the form that it wrote before it had sets.

    Args:
        error: makes an error of what is wrong at a place of the data.
    """
    with knowingly():
        try:
            if isinstance(data, list):
                return convert_eval_set_to_pydantic_schema("eval", cast("list[dict[str, Any]]", data))
            return EvalSet.model_validate(data)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise error(first["loc"], f"this is no set of ADK's: {place}: {first['msg']}.") from wrong
        except (KeyError, TypeError, AttributeError, ValueError) as wrong:
            raise error((), f"this is no set of ADK's: {what_happened(wrong)}.") from wrong


def fields_of(case: EvalCase) -> dict[str, Any]:
    """The arguments of the `FluentCase` that one of ADK's cases is.

    A case of ADK's always expects the tool calls it lists, none if it lists none.
    """
    given: dict[str, Any] = {"metadata": {"id": case.eval_id}}
    if case.session_input is not None and case.session_input.state:
        given["initial_state"] = dict(case.session_input.state)
    if case.final_session_state:
        given["state_assertions"] = dict(case.final_session_state)
    if case.conversation_scenario is not None:
        scenario = case.conversation_scenario
        given["metadata"]["conversation_plan"] = scenario.conversation_plan
        return {**given, "input": scenario.starting_prompt}
    given["metadata"]["simulated"] = False
    turns = list(case.conversation or ())
    given["input"] = [_said(turn.user_content) for turn in turns]
    given["expected_trajectory"] = [_calls(turn) for turn in turns]
    references = [_text(turn.final_response) if turn.final_response else None for turn in turns]
    if any(reference is not None for reference in references):
        given["reference_response"] = references
    if len(turns) == 1:
        given["input"] = given["input"][0]
        given["expected_trajectory"] = given["expected_trajectory"][0]
        if "reference_response" in given:
            given["reference_response"] = references[0]
    return given


def _said(content: types.Content) -> str | types.Content:
    parts = content.parts or []
    return content if any(not part.text for part in parts) else _text(content)


def _calls(turn: Invocation) -> list[Any]:
    calls = get_all_tool_calls(turn.intermediate_data)
    return [(call.name or "") if call.args is None else {call.name or "": dict(call.args)} for call in calls]
