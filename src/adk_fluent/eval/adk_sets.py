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

from adk_fluent.backends.adk.api import knowingly
from adk_fluent.errors import what_happened
from adk_fluent.ir.tools import ASKED_BY_ADK

if TYPE_CHECKING:
    from adk_fluent.eval.cases import ExpectedCall, FluentCase, Turn
    from adk_fluent.eval.simulation import UserSimulation

USER: Final = "eval_user"
"""The user of every case; ADK tells the state of a session only where the user is named."""

BY_NAME: Final = "by_name"
"""The id of an expected call that may have any arguments; to ADK, one without arguments is something else."""


def eval_case(
    name: str, case: FluentCase, app_name: str, simulation: UserSimulation | None = None
) -> EvalCase:
    """A case as ADK has it; under a simulation its input is only how the user begins.

    A call that may have any arguments has the id `BY_NAME`.
    """
    session = SessionInput(app_name=app_name, user_id=USER, state=dict(case.initial_state or {}))
    if simulation is not None:
        from google.adk.evaluation.conversation_scenarios import ConversationScenario

        said = case.turns[0].said
        begins = said if isinstance(said, str) else words(said)
        plan = str(case.metadata.get("conversation_plan") or simulation.plan)
        scenario = ConversationScenario(starting_prompt=begins, conversation_plan=plan)
        return EvalCase(eval_id=name, conversation_scenario=scenario, session_input=session)
    return EvalCase(eval_id=name, conversation=[*map(_invocation, case.turns)], session_input=session)


def _invocation(turn: Turn) -> Invocation:
    said = turn.said
    content = said if isinstance(said, types.Content) else _content(said, "user")
    reference = _content(turn.reference, "model") if isinstance(turn.reference, str) else turn.reference
    return Invocation(
        user_content=content,
        final_response=None if turn.reference == "" else reference,
        intermediate_data=None
        if turn.calls is None
        else IntermediateData(tool_uses=list(map(_expected, turn.calls))),
    )


def _expected(call: ExpectedCall) -> types.FunctionCall:
    if call.args is None:
        return types.FunctionCall(name=call.name, id=None if call.bare else BY_NAME)
    return types.FunctionCall(name=call.name, args=dict(call.args))


def _content(text: object, role: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=str(text))])


def words(content: types.Content | None) -> str:
    """The text of a content, without thoughts."""
    parts = (content.parts if content else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def without_thoughts(content: types.Content | None) -> types.Content | None:
    """A content without the thoughts in it; the same object where there are none."""
    if not thinks(content):
        return content
    assert content is not None
    kept = [part for part in content.parts or () if not (part.thought and part.text)]
    return content.model_copy(update={"parts": kept})


def thinks(content: types.Content | None) -> bool:
    """Whether there are thoughts in a content."""
    return any(part.thought and part.text for part in (content.parts if content else None) or ())


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

    A case of ADK's always expects the tool calls that it lists, none if it lists none. It expects the answer
    of each turn, an empty one if it has none. What ADK asks a person is expected by name.
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
    turns = _parted(case.conversation or ())
    given["input"] = [_said(turn.user_content) for turn in turns]
    given["expected_trajectory"] = [_calls(turn) for turn in turns]
    given["reference_response"] = [_reference(turn) for turn in turns]
    if len(turns) == 1:
        for name in ("input", "expected_trajectory", "reference_response"):
            given[name] = given[name][0]
    return given


def _parted(turns: Sequence[Invocation]) -> list[Invocation]:
    """The turns, where one that answers a question has only the calls after it.

    ADK's web page makes one turn of a run that paused, of its last message alone. Once the message that began
    it stands before it again, the calls up to the question belong to that.
    """
    found = list(turns)
    for at in range(len(found) - 1, 0, -1):
        given = (part.function_response for part in found[at].user_content.parts or ())
        answered = {one.id for one in given if one is not None and one.id}
        calls = calls_of(found[at])
        until = max((place for place, call in enumerate(calls, 1) if call.id in answered), default=0)
        if until and found[at - 1].intermediate_data is None:
            for place, part in ((at - 1, calls[:until]), (at, calls[until:])):
                data = IntermediateData(tool_uses=part)
                found[place] = found[place].model_copy(update={"intermediate_data": data})
    return found


def _said(content: types.Content) -> str | types.Content:
    """The text of the user, if it is all that there is; else the model is sent the content as it is."""
    text = words(content)
    return text if content.parts == [types.Part(text=text)] and content.role in ("user", None) else content


def _reference(turn: Invocation) -> str | types.Content | None:
    """The answer that a turn expects; nothing where it ends with a question of ADK's to a person."""
    answer = turn.final_response
    if not words(answer) and any(call.name in ASKED_BY_ADK for call in calls_of(turn)):
        return None
    return answer if answer is not None and thinks(answer) else words(answer)


def _calls(turn: Invocation) -> list[Any]:
    return [
        call.name or ""
        if call.name in ASKED_BY_ADK or (call.id == BY_NAME and call.args is None)
        else {call.name or "": call.args}
        for call in calls_of(turn)
    ]


def calls_of(turn: Invocation) -> list[types.FunctionCall]:
    """The calls of a turn, in order; also the question that it ends with, which ADK 1 does not list."""
    listed, answer = get_all_tool_calls(turn.intermediate_data), turn.final_response
    last = [part.function_call for part in (answer.parts if answer else None) or () if part.function_call]
    return [*listed, *(call for call in last if call.name in ASKED_BY_ADK and call not in listed)]
