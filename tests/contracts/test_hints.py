"""Advice of findings: a run that follows it does what the finding says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from google.adk.models.base_llm import BaseLlm

from adk_fluent import Agent, C, FanOut, Pipeline, RemoteAgent, Route, S, gate, map_over
from adk_fluent.contracts import check_a2a_contracts, check_all
from adk_fluent.errors import MissingKeyError, PredicateError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, walk
from adk_fluent.state import StateSchema, Temp
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import ANYWAY, system
from tests.contracts.corpus.cases import Fault, Mood, Ticket, get_news, get_weather, load_tickets
from tests.contracts.corpus.faulty import FAULTY
from tests.samples import TERSE


class Desk(StateSchema):
    """Fields with and without defaults."""

    intent: Literal["refund", "other"]
    attempts: int = 0
    note: str | None = None


def hint(expression: Expr[Any], code: str, **options: Any) -> str:
    """The advice of the only finding of a kind."""
    (found,) = [issue for issue in check_all(expression, **options).issues if issue.code == code]
    return found.hint


async def requests(expression: Expr[Any], responses: Mapping[str, Any] | None = None) -> dict[str, list[str]]:
    """The instructions that a run sends."""
    backend = mock_backend(responses or {}, default="ok")
    await expression.run("hi", backend=backend)
    return {agent: [system(request) for request in calls] for agent, calls in backend.calls.items()}


# --- keys that are not there ----------------------------------------------------------------------

triage = Agent("triage").returns(Ticket)
answerer = Agent("answerer").context(C.user_only())


async def test_an_unstored_field_of_an_answer() -> None:
    """`{team}` after `@ Ticket` names agent and model, and both ways it shows fill the placeholder."""
    reads = answerer.instruct("For {team}.")
    assert hint(triage >> reads, "unresolved-template-var") == (
        'triage answers with a Ticket, which has "team", but nothing stores it.\n'
        "Declare team in a StateSchema and let triage write it: .writes(State.team). Or add "
        '.writes("triage_answer") and S.compute(team=lambda state: state["triage_answer"]["team"]).\n'
        "If you mean the text {team}, write \\{team}."
    )

    class State(StateSchema):
        team: str

    for mended in (
        triage.writes(State.team) >> reads,
        triage.writes("triage_answer")
        >> S.compute(team=lambda state: state["triage_answer"]["team"])
        >> reads,
    ):
        assert check_all(mended).ok
        assert "For red." in (await requests(mended, {"triage": {"team": "red"}}))["answerer"][0]


async def test_a_field_of_an_answer_that_is_stored_whole() -> None:
    """`{team}` where a whole `Ticket` is stored says so, and what it shows fills the placeholder."""
    stored, reads = triage.writes("ticket"), answerer.instruct("For {team}.")
    assert hint(stored >> reads, "unresolved-template-var") == (
        'triage writes a whole Ticket to "ticket", and "team" is a field of it.\n'
        'Store the field under its name: S.compute(team=lambda state: state["ticket"]["team"]) '
        "after triage.\n"
        "If you mean the text {team}, write \\{team}."
    )
    mended = stored >> S.compute(team=lambda state: state["ticket"]["team"]) >> reads
    assert "For red." in (await requests(mended, {"triage": {"team": "red"}}))["answerer"][0]


async def test_a_part_of_a_stored_answer() -> None:
    """`{ticket.team}` is sent as it stands; what the finding shows instead is filled."""
    stored = triage.writes("ticket")
    slip = stored >> answerer.instruct("For {ticket.team}.")
    assert hint(slip, "literal-placeholder") == (
        "A placeholder names a whole key.\n"
        'Store the part under another key: S.compute(ticket_team=lambda state: state["ticket"]["team"]), '
        "and write {ticket_team}."
    )
    assert "For {ticket.team}." in (await requests(slip, {"triage": {"team": "red"}}))["answerer"][0]
    compute = S.compute(ticket_team=lambda state: state["ticket"]["team"])
    mended = stored >> compute >> answerer.instruct("For {ticket_team}.")
    assert "For red." in (await requests(mended, {"triage": {"team": "red"}}))["answerer"][0]


@pytest.mark.parametrize(
    ("key", "meant"), [("1st", "_1st"), ("user:my-key", "user:my_key"), ("my-key", "my_key"), ("a b", "a_b")]
)
async def test_a_written_key_that_no_placeholder_can_name(key: str, meant: str) -> None:
    """ADK leaves such braces as they are, though the key is written; it fills the key that is advised."""
    slip = Agent("teller").writes(key) >> answerer.instruct(f"For {{{key}}}.")
    assert hint(slip, "literal-placeholder") == (
        "ADK does not fill it. A key in a placeholder has only letters, digits and _, and no digit in "
        f"front.\nName the key {meant!r} instead."
    )
    assert f"For {{{key}}}." in (await requests(slip, {"teller": "red"}))["answerer"][0]
    mended = Agent("teller").writes(meant) >> answerer.instruct(f"For {{{meant}}}.")
    assert "For red." in (await requests(mended, {"teller": "red"}))["answerer"][0]


def transfer_to_agent() -> str:
    """Do what a tool of ADK's is called after."""
    return ""


def set_model_response() -> str:
    """Do what another is called after."""
    return ""


def finish_task() -> str:
    """Do what a third is called after."""
    return ""


def test_a_tool_with_the_name_of_one_that_adk_gives() -> None:
    """A tool is refused that has the name of one which ADK declares for the same agent."""
    boss = Agent("boss").tool(transfer_to_agent)
    typed = Agent("typed").tool(set_model_response)
    for slip in (boss.delegate(Agent("x")), typed.returns(int)):
        assert "Rename yours." in hint(slip, "duplicate-tool")
    for fine in (boss, typed, Agent("a").tool(finish_task), boss >> typed):
        assert not [issue for issue in check_all(fine).issues if issue.code == "duplicate-tool"]


class Able(BaseLlm):
    """A model that can be asked for a type beside tools, and says so where ADK asks it."""

    @property
    def capabilities(self) -> Any:
        return SimpleNamespace(output_schema_and_tools=True)

    def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any: ...


@pytest.mark.parametrize(
    ("model", "vertex", "severity"),
    [
        ("gemini-2.5-flash", "", "error"),
        ("gemini-2.5-flash", "true", None),
        ("claude-sonnet-4", "true", "error"),
        ("openai/gpt-4o", "", "warn"),
        ("anthropic/claude-sonnet-4", "", "error"),
        (Able(model="mine"), "", None),
        (None, "1", None),
        (None, "", "error"),
    ],
)
def test_a_tool_by_which_only_some_models_answer(
    monkeypatch: pytest.MonkeyPatch, model: Any, vertex: str, severity: str | None
) -> None:
    """ADK declares `set_model_response` unless the model can be asked for a type beside tools."""
    monkeypatch.setitem(os.environ, "GOOGLE_GENAI_USE_ENTERPRISE", vertex)
    slip = Agent("typed", model).tool(set_model_response).returns(int)
    found = [issue.severity.value for issue in check_all(slip).issues if issue.code == "duplicate-tool"]
    assert found == ([] if severity is None else [severity])


LITERAL = [case for case in FAULTY if case.code == "literal-placeholder"]


@pytest.mark.parametrize("template", ["Write {{topik}}.", "Write {{ topik }}."])
@pytest.mark.parametrize("kind", ["agent", "gate"])
async def test_doubled_braces_are_explained(kind: str, template: str) -> None:
    """Braces doubled as in a format string are no escape: the check and the run say what is."""

    def asked(text: str) -> Expr[Any]:
        return Agent("a").instruct(text) if kind == "agent" else gate(lambda state: True, message=text)

    told = "If {{topik}} is meant as the text {topik}, write \\{topik}: doubled braces are no escape."
    said = hint(asked("Write {topik}."), "unresolved-template-var")
    literal = "If you mean the text {topik}, write \\{topik}."
    assert said.endswith(f"\n{literal}")
    assert hint(asked(template), "unresolved-template-var") == said.replace(literal, told)
    with pytest.raises(MissingKeyError) as once:
        await asked("Write {topik}.").run("hi", backend=mock_backend(default="ok"), config=ANYWAY)
    assert str(once.value).endswith(f" {literal}")
    with pytest.raises(MissingKeyError) as missing:
        await asked(template).run("hi", backend=mock_backend(default="ok"), config=ANYWAY)
    assert str(missing.value).endswith(f" {told}")


async def test_a_backslash_writes_a_brace() -> None:
    """If you follow the advice on doubled braces, the model gets the braces."""
    (sent,) = (await requests(Agent("a").instruct(r"Write \{topik}.")))["a"]
    assert sent.startswith("Write {topik}.")


@pytest.mark.parametrize("case", LITERAL, ids=lambda case: case.name)
async def test_literal_braces_are_sent_unchanged(case: Fault) -> None:
    """Every text in braces that the check calls no placeholder reaches the model with its braces."""
    agents = [node for node in walk(case.expression.node) if isinstance(node, AgentNode)]
    typed = {agent.name: {"team": "red"} for agent in agents if "output_schema" in agent.given}
    sent = (await requests(case.expression, typed))[case.agent][0]
    (found,) = [issue for issue in check_all(case.expression).issues if issue.code == case.code]
    shown = re.findall(r"\{.+?\}", found.message)
    assert shown
    assert all(braces in sent for braces in shown)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (Agent("a").instruct("Try {attempts}.").reads(Desk.attempts), "attempts=0"),
        (Agent("a").instruct("Try {attempts}.").schema(Desk), "attempts=0"),
        (Agent("w").writes(Desk.intent) >> Agent("a").instruct("Try {attempts}."), "attempts=0"),
    ],
    ids=["read", "bound", "written beside"],
)
async def test_the_default_of_a_schema_is_not_in_state(expression: Expr[Any], said: str) -> None:
    """A template cannot see a schema's default: the run fails; with the advised `S.default` it does not."""
    errors = [issue for issue in check_all(expression).errors if issue.key == "attempts"]
    assert {issue.hint.partition("\nIf you mean")[0] for issue in errors} == {
        "Desk.attempts has a default, but that counts only where code reads the schema.\n"
        f"Put S.default({said}) in front."
    }
    responses = {"w": {"intent": "refund"}}
    with pytest.raises(MissingKeyError, match="attempts"):
        await requests(expression, responses)
    mended = S.default(attempts=0) >> expression
    assert check_all(mended).ok
    assert "Try 0." in (await requests(mended, responses))["a"][0]


async def test_the_default_of_a_schema_is_not_in_a_context() -> None:
    """`.reads` shows no field that only has a default; the finding says why."""
    reads = Agent("a").instruct("Go.").reads(Desk.attempts)
    assert "Desk.attempts has a default" in hint(reads, "read-before-write")
    assert "attempts" not in (await requests(reads))["a"][0]
    assert "[attempts]: 0" in (await requests(S.default(attempts=0) >> reads))["a"][0]


def test_a_default_of_none_is_no_help() -> None:
    """`None` is absent, so a default of `None` is not offered as a value."""
    assert "S.default" not in hint(Agent("a").reads(Desk.note), "read-before-write")


def test_a_default_of_another_scope_is_named_by_its_key() -> None:
    """The advice writes the whole key."""

    class Scratch(StateSchema):
        pad: Annotated[str, Temp] = "empty"

    reads = Agent("a").instruct("{temp:pad}").schema(Scratch)
    assert "S.default(**{\"temp:pad\": 'empty'})" in hint(reads, "unresolved-template-var")


@pytest.mark.parametrize("key", ["item", "ticket"])
async def test_the_item_of_a_map_by_another_name(key: str) -> None:
    """`{item}`, or the list's name in the singular, says what the item is called; both ways it shows work."""
    body = Agent("a").instruct(f"Do {{{key}}}.")
    tickets = Pipeline(load_tickets)
    assert hint(tickets >> map_over("tickets", body), "unresolved-template-var") == (
        "map gives each item of 'tickets' as {_item}.\n"
        f"Read {{_item}}, or give it this name: map_over(..., item_key='{key}').\n"
        f"If you mean the text {{{key}}}, write \\{{{key}}}."
    )
    for mended in (
        tickets >> map_over("tickets", Agent("a").instruct("Do {_item}.")),
        tickets >> map_over("tickets", body, item_key=key),
    ):
        assert "Do b." in (await requests(mended))["a"][1]


async def test_the_whole_list_in_place_of_the_item() -> None:
    """A body that reads the list and not its item is asked the same thing for every item."""
    body = Agent("a").instruct("Do {tickets}.").context(C.none())
    slip = Pipeline(load_tickets) >> map_over("tickets", body)
    assert hint(slip, "unread-item") == (
        "So every item gets the same request. {tickets} is the whole list; for one item write {_item}."
    )
    first, second = (await requests(slip))["a"]
    assert first == second


async def test_a_field_that_may_be_null() -> None:
    """A field whose type allows `None` may be `None` after it was written; the advised default fills it."""

    class Maybe(StateSchema):
        name: str
        nick: str | None

    asks = Agent("a").writes(Maybe.name, Maybe.nick)
    reads = answerer.instruct("Dear {nick}")
    slip = asks >> reads
    assert hint(slip, "unresolved-template-var") == (
        '"nick" is written by a, whose answer may be None: then a placeholder is empty text, and every '
        "other reader finds nothing.\n"
        "Put S.default(nick=...) after a, or write {nick?}."
    )
    answer = {"a": {"name": "Ann", "nick": None}}
    assert "Dear \n" in (await requests(slip, answer))["answerer"][0]
    assert "Dear friend" in (await requests(asks >> S.default(nick="friend") >> reads, answer))["answerer"][0]


# --- comparisons ----------------------------------------------------------------------------------


async def test_a_bound_in_quotes_on_a_number() -> None:
    """Comparing a number with text raises in every run; the finding shows the number to write."""

    def route(limit: Any) -> Expr[Any]:
        return S.set(n=7) >> Route("n").gt(limit, Agent("more")).otherwise(Agent("less"))

    assert hint(route("5"), "type-mismatch") == "Compare with the number: gt(5, ...)."
    with pytest.raises(PredicateError, match="which is no text"):
        await requests(route("5"))
    assert check_all(route(5)).ok
    assert "more" in await requests(route(5))


async def test_text_that_is_a_number_equals_it() -> None:
    """A number that a model wrote is compared as one, so the check is silent about it."""
    route = Agent("a").writes("score") >> Route("score").eq(5, Agent("five")).otherwise(Agent("other"))
    assert check_all(route).ok
    assert "other" not in {agent for agent, calls in (await requests(route, {"a": " 5.0 "})).items() if calls}


def test_a_value_that_a_field_cannot_have() -> None:
    """The nearest value of a `Literal` is named, or all of them where none is near."""
    writes = Agent("a").writes(Desk.intent)
    near = writes >> Route(Desk.intent).eq("refnd", Agent("b")).otherwise(Agent("c"))
    far = writes >> Route(Desk.intent).eq("complaint", Agent("b")).otherwise(Agent("c"))
    assert hint(near, "type-mismatch") == "Did you mean 'refund'?"
    assert hint(far, "type-mismatch") == "It can be one of 'refund', 'other'."


async def test_a_route_that_covers_all_values_needs_no_otherwise() -> None:
    """If each value of a field has its branch, there is no note, and a key of all branches is present."""
    route = (
        Agent("a").writes(Desk.intent)
        >> Route(Desk.intent).eq("refund", Agent("b").writes("x")).eq("other", Agent("c").writes("x"))
        >> Agent("d").context(C.none()).instruct("{x}")
    )
    report = check_all(route)
    assert {issue.code for issue in (*report.warnings, *report.infos)} - TERSE == set()
    for intent in ("refund", "other"):
        assert len((await requests(route, {"a": {"intent": intent}}))["d"]) == 1


def test_a_value_without_a_branch_needs_otherwise() -> None:
    """One value without a branch is enough for the note."""
    route = Agent("a").writes(Desk.intent) >> Route(Desk.intent).eq("refund", Agent("b"))
    assert hint(route, "route-without-otherwise")


# --- one thing, said once -------------------------------------------------------------------------


def test_many_branches_into_one_merge_are_one_note() -> None:
    """Forty texts that reach an agent twice are one note, which names three of them and counts the others."""
    branches = FanOut(*(Agent(f"a{n}").instruct("Go.").writes(f"k{n}") for n in range(40)))
    merge = Agent("merge").instruct(" ".join(f"{{k{n}}}" for n in range(40)))
    (note,) = check_all(branches >> merge).infos
    assert note.message == (
        'merge has C.default() with predecessors a0.outputs("k0"), a1.outputs("k1"), a2.outputs("k2") and '
        "37 more"
    )
    assert '.reads("k0", "k1", "k2", "k3", "k4", "k5", ...)' in note.hint


def test_the_check_of_remote_agents_reports_their_missing_keys() -> None:
    """`check_a2a_contracts` alone says that a key of `.reads` is not there; `check_all` says it once."""
    remote = RemoteAgent("pay", endpoint="http://127.0.0.1:1").reads("order")
    (alone,) = check_a2a_contracts(remote)
    assert (alone.code, alone.agent, alone.key) == ("read-before-write", "pay", "order")
    assert [issue for issue in check_all(remote).issues if issue.key == "order"] == [alone]


async def test_tool_calls_that_are_left_out_can_be_shown() -> None:
    """If you follow the note about tool calls, the model sees the results of the tool."""
    caller = Agent("caller").tool(get_weather).writes("found")
    blind = Agent("b").tool(get_news).context(C.none()).instruct("{found}")
    advice = '.context(C.from_agents("caller").as_contents())'
    assert advice in hint(caller >> blind, "tool-history")
    responses = {"caller": [call_tool("get_weather", city="Bern"), "Fine."], "b": "Done."}
    for agent, seen in ((blind, False), (blind.context(C.from_agents("caller").as_contents()), True)):
        backend = mock_backend(responses)
        await (caller >> agent).run("hi", backend=backend)
        results = [
            part.function_response or (part.text or "")
            for content in backend.calls["b"][0].contents
            for part in content.parts or ()
        ]
        assert any("Sunny in Bern" in str(result) for result in results) is seen
        assert bool([i for i in check_all(caller >> agent).infos if i.code == "tool-history"]) is not seen


async def test_a_member_of_an_enum_that_a_step_sets_is_no_text() -> None:
    """`S.set` keeps the enum member, so a route that compares text does not match, and the check says so."""
    route = (
        S.set(mood=Mood.GOOD)
        >> Route("mood").eq("good", Agent("a").writes("x")).eq("bad", Agent("b").writes("x"))
        >> Agent("r").instruct("{x}")
    )
    assert [issue.key for issue in check_all(route).warnings] == ["x"]
    with pytest.raises(MissingKeyError, match="'x'"):
        await requests(route)


def test_a_removal_is_not_reported_as_a_read() -> None:
    """A key that is present when a step drops it gets no line in the report."""
    assert check_all(S.set(a=1) >> S.drop("a") >> Agent("b")).oks == ()
