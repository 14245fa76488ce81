"""`C`: what part of the conversation an agent sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, cast

from adk_fluent._namespace import Namespace
from adk_fluent.context.control import ConditionalContext, ValidateContext, WriteNotes
from adk_fluent.context.entries import CountTokens
from adk_fluent.context.extraction import Distill, Extract
from adk_fluent.context.filters import (
    FIELDS,
    Compact,
    Dedup,
    Fit,
    Fresh,
    Priority,
    Project,
    RecentTurns,
    Redact,
    Truncate,
)
from adk_fluent.context.model_operations import (
    Budget,
    ManusCascade,
    Relevant,
    Rolling,
    Summarize,
)
from adk_fluent.context.sources import (
    ENTRY_TYPES,
    DefaultContext,
    ExcludeAgents,
    FromAgents,
    FromAgentsWindowed,
    Nothing,
    Scratchpads,
    Select,
    StateValues,
    Template,
    User,
    UserOnly,
    Window,
)
from adk_fluent.context.spec import Context
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import (
    agent_names,
    check_key,
    count,
    describe,
    function,
    observer,
    one_of,
    positive_number,
)
from adk_fluent.expr.base import Step
from adk_fluent.ir.nodes import CaptureNode
from adk_fluent.ir.predicates import Predicate, plain

if TYPE_CHECKING:
    from google.adk.models import BaseLlm
    from pydantic import BaseModel

    from adk_fluent.context.model_operations import Embedder

    Model = str | BaseLlm
    Scorer = Callable[[str, str], float] | str | Embedder

__all__ = ["C"]


class C(metaclass=Namespace):
    """What part of the conversation an agent sees: give one to `Agent.context`.

    Each factory gives a frozen value. `a + b` sees what either selects, `a | b` passes what `a` selects
    through `b`; a filter alone filters the whole conversation. Whatever a spec says, the model gets the
    current user message once, and the tool calls and results of its own agent in the current turn; the rest
    of the selection stands in a `<conversation_context>` block at the end of the instruction, or, with
    `.as_contents()`, among the real messages. What a spec leaves out reaches the model in no way.

    A turn is one user message and every event up to the next; the current turn counts as one.

    Example:
        >>> from adk_fluent import Agent, C
        >>> booker = Agent("booker").context(C.user_only() + C.from_state("intent"))
        >>> sorted(booker.node.reads_keys)
        ['intent']
    """

    # --- primitives -------------------------------------------------------------------------------

    @staticmethod
    def default() -> Context:
        """Everything, assembled by ADK itself."""
        return DefaultContext()

    @staticmethod
    def none() -> Context:
        """Nothing but the current user message and the agent's own tool use in this turn."""
        return Nothing()

    @staticmethod
    def user_only() -> Context:
        """The user's messages; nothing that agents said."""
        return UserOnly()

    # --- selection --------------------------------------------------------------------------------

    @staticmethod
    def from_state(*keys: str) -> Context:
        """Values of the state, one `[key]: value` each; a key that is not set is left out.

        Alone it leaves the whole conversation out; in a `+` the other part decides about that.
        """
        return StateValues(_keys(keys, "C.from_state()"))

    @staticmethod
    def from_agents(*names: str) -> Context:
        """The user's messages, and what these agents said and did."""
        return FromAgents(agent_names(names, "C.from_agents()"))

    @staticmethod
    def exclude_agents(*names: str) -> Context:
        """Everything but what these agents said and did."""
        return ExcludeAgents(agent_names(names, "C.exclude_agents()"))

    @staticmethod
    def window(n: int = 5) -> Context:
        """The last `n` turns, the current one included."""
        return Window(count(n, "C.window(n=)"))

    @staticmethod
    def last_n_turns(n: int) -> Context:
        """Do the same as `window(n)`, by a name that says it in full. Prefer `window`."""
        return C.window(n)

    @staticmethod
    def template(text: str) -> Context:
        """A text with `{key}` and `{key?}` filled from state, in place of the conversation.

        A required key that is not set raises `MissingKeyError`.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            raise ArgumentError(f"C.template() takes text, not {describe(cast(object, text))}.")
        return Template(text)

    # --- filtering --------------------------------------------------------------------------------

    @staticmethod
    def select(
        *, author: str | Sequence[str] | None = None, type: str | None = None, tag: str | None = None
    ) -> Context:
        """The events that match all that is given.

        Args:
            author: an agent's name, `user`, or several of them.
            type: `text`, `tool_call`, `tool_response` or `file`.
            tag: a label that the event's `custom_metadata` lists under `tags`.
        """
        authors = (author,) if isinstance(author, str) else None if author is None else tuple(author)
        one_of(type, (None, *ENTRY_TYPES), "C.select(type=)")
        return Select(authors, type, tag)

    @staticmethod
    def recent(half_life: float = 10, min_weight: float = 0.1) -> Context:
        """What is not too long ago: an event weighs half as much every `half_life` turns.

        Args:
            half_life: turns after which the weight of an event is halved.
            min_weight: events that weigh less are left out; an event of the current turn weighs 1.
        """
        if not 0 < min_weight <= 1:
            raise ArgumentError(f"C.recent(min_weight=) is above 0 and at most 1, not {min_weight!r}.")
        return RecentTurns(positive_number(half_life, "C.recent()"), min_weight)

    @staticmethod
    def compact() -> Context:
        """Adjacent texts of one author joined, and each finished tool call and its result in one line."""
        return Compact()

    @staticmethod
    def dedup(strategy: Literal["exact", "normalized", "semantic"] = "exact") -> Context:
        """Each text once, where it was said first.

        Args:
            strategy: `exact` compares texts as they are; `normalized` without regard to case, punctuation and
                white space; `semantic` takes texts of nearly the same words (a cosine of word counts of at
                least 0.85) as one, without asking a model.
        """
        one_of(strategy, ("exact", "normalized", "semantic"), "C.dedup()")
        return Dedup(strategy)

    @staticmethod
    def truncate(
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        strategy: Literal["tail", "head", "middle"] = "tail",
        count_tokens: CountTokens | None = None,
    ) -> Context:
        """At most so many turns, so many tokens, or both.

        Args:
            max_turns: turns to keep, the current one included.
            max_tokens: tokens to keep, as they stand in the block.
            strategy: which end to keep: `tail` the newest, `head` the oldest, `middle` both ends.
            count_tokens: counts the tokens of a text; four characters each by default.
        """
        if max_turns is None and max_tokens is None:
            raise ArgumentError("C.truncate() needs max_turns= or max_tokens=.")
        one_of(strategy, ("tail", "head", "middle"), "C.truncate(strategy=)")
        turns = None if max_turns is None else count(max_turns, "C.truncate(max_turns=)")
        tokens = None if max_tokens is None else count(max_tokens, "C.truncate(max_tokens=)")
        return Truncate(turns, tokens, strategy, count_tokens)

    @staticmethod
    def project(*fields: str) -> Context:
        """Only these parts of each event: `text`, `function_calls`, `function_responses`, `files`."""
        if not fields:
            raise ArgumentError(f"C.project() needs at least one of {', '.join(FIELDS)}.")
        for field in fields:
            one_of(field, FIELDS, "C.project()")
        return Project(fields)

    # --- constraints ------------------------------------------------------------------------------

    @staticmethod
    def budget(
        max_tokens: int,
        overflow: Literal["truncate_oldest", "error", "summarize"] = "truncate_oldest",
        *,
        model: Model | None = None,
        count_tokens: CountTokens | None = None,
    ) -> Context:
        """At most so many tokens in the selection and the state values beside it.

        The current user message and the agent's own tool use of the turn are not counted, and never cut.

        Args:
            max_tokens: the tokens allowed.
            overflow: what happens to more: `truncate_oldest` leaves out the oldest, those of a low `priority`
                first; `error` raises `ContextError` before the model is called; `summarize` replaces the
                oldest by a summary.
            model: who summarizes; by default the agent's own model.
            count_tokens: counts the tokens of a text; four characters each by default.
        """
        one_of(overflow, ("truncate_oldest", "error", "summarize"), "C.budget(overflow=)")
        return Budget(count(max_tokens, "C.budget()"), overflow, model, count_tokens)

    @staticmethod
    def priority(tier: int) -> Context:
        """Give what is selected a tier; a budget leaves out lower tiers first. Without one it is 0."""
        if not isinstance(tier, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            raise ArgumentError(f"C.priority() takes a whole number, not {describe(cast(object, tier))}.")
        return Priority(tier)

    @staticmethod
    def fit(max_tokens: int, *, count_tokens: CountTokens | None = None) -> Context:
        """Compact, then drop repetition, then truncate, until it fits into `max_tokens`."""
        return Fit(count(max_tokens, "C.fit()"), count_tokens)

    @staticmethod
    def fresh(max_age: float) -> Context:
        """Events of the last `max_age` seconds."""
        return Fresh(positive_number(max_age, "C.fresh()"))

    @staticmethod
    def redact(*patterns: str | re.Pattern[str], replacement: str = "[REDACTED]") -> Context:
        """Everything that a regular expression finds replaced, in the current user message too."""
        if not patterns:
            raise ArgumentError("C.redact() needs at least one regular expression.")
        return Redact(tuple((p.pattern, p.flags) for p in map(_pattern, patterns)), replacement)

    # --- with a model -----------------------------------------------------------------------------

    @staticmethod
    def summarize(
        *,
        model: Model | None = None,
        prompt: str | None = None,
        scope: Literal["all", "earlier", "tools"] = "all",
    ) -> Context:
        """A summary in place of what is selected.

        A helper model's answer is kept for the same content; the tokens it used count for the agent; and when
        the call fails, a warning is logged on `adk_fluent.context` and the selection stays as it is. The same
        holds for `relevant`, `extract`, `distill`, `rolling`, `manus_cascade` and `budget`.

        Args:
            model: who summarizes; by default the agent's own model.
            prompt: what to ask for, in place of the usual words.
            scope: `all` of it; only `earlier` turns; or only `tools`, calls and results.
        """
        one_of(scope, ("all", "earlier", "tools"), "C.summarize(scope=)")
        return Summarize(model, prompt, scope)

    @staticmethod
    def relevant(
        *,
        query: str | None = None,
        query_key: str | None = None,
        top_k: int = 5,
        scorer: Scorer | None = None,
        model: Model | None = None,
    ) -> Context:
        """The `top_k` texts that bear most on a question.

        Args:
            query: the question; by default the current user message.
            query_key: the state key that holds it instead.
            top_k: how many texts to keep.
            scorer: `(query, text) -> float`, higher is better; or an embedding model: its name, or an object
                with `embed(texts)` that gives a vector for each text. By default a model chooses.
            model: who chooses; by default the agent's own model.
        """
        if query is not None and query_key is not None:
            raise ArgumentError("C.relevant() takes query= or query_key=, not both.")
        key = None if query_key is None else check_key(query_key, "C.relevant(query_key=)")
        best = count(top_k, "C.relevant(top_k=)")
        return Relevant(query, key, best, plain(scorer, "C.relevant(scorer=)"), model)

    @staticmethod
    def extract(schema: type[BaseModel], *, into: str, model: Model | None = None) -> Context:
        """Data that a model finds in what is selected, in its place; also written to state.

        Args:
            schema: the pydantic model of the data.
            into: the state key that gets it as a dict, and its label in the context.
            model: who looks for it; by default the agent's own model.
        """
        if not hasattr(schema, "model_json_schema"):
            raise ArgumentError(f"C.extract() takes a pydantic model class, not {describe(schema)}.")
        return Extract(schema, check_key(into, "C.extract(into=)"), model)

    @staticmethod
    def distill(*, into: str, model: Model | None = None) -> Context:
        """The facts that a model finds in what is selected, one a line, in its place; also written to state.

        Args:
            into: the state key that gets the lines, and their label in the context.
            model: who looks for them; by default the agent's own model.
        """
        return Distill(check_key(into, "C.distill(into=)"), model)

    # --- ready-made -------------------------------------------------------------------------------

    @staticmethod
    def rolling(n: int, *, summarize: bool = False, model: Model | None = None) -> Context:
        """The last `n` turns, and with `summarize` one summary of all before them."""
        return Rolling(count(n, "C.rolling()"), bool(summarize), model)

    @staticmethod
    def from_agents_windowed(**agent_to_n: int) -> Context:
        """Select the user's messages, and what each named agent did since the last `n` texts it wrote.

        Use it for loops: a writer needs the last remark of its critic, and not all of them.
        `from_agents` selects all that an agent wrote; `window` counts turns of the conversation.

        Args:
            agent_to_n: agent name → how many of its texts.

        >>> from adk_fluent import Agent, C, until
        >>> writer = Agent("writer").context(C.from_agents_windowed(writer=1, critic=1))
        >>> draft = (writer >> Agent("critic").writes("verdict")) * until(lambda s: s["verdict"] == "ok")
        """
        agent_names(tuple(agent_to_n), "C.from_agents_windowed()")
        pairs = tuple((name, count(n, f"C.from_agents_windowed({name}=)")) for name, n in agent_to_n.items())
        return FromAgentsWindowed(pairs)

    @staticmethod
    def user(strategy: Literal["all", "first", "last", "bookend"] = "all") -> Context:
        """The user's messages: all, the first, the last (the current one), or the first and the last."""
        one_of(strategy, ("all", "first", "last", "bookend"), "C.user()")
        return User(strategy)

    @staticmethod
    def manus_cascade(
        budget: int, *, model: Model | None = None, count_tokens: CountTokens | None = None
    ) -> Context:
        """Shrink the history step by step until it fits: compact, drop repetition, summarize, truncate.

        Use it for agents that work for long and call many tools. The first two steps ask no model; a model
        is asked for a summary only if they are not enough. `budget` only drops the oldest, or summarizes it;
        `rolling` keeps a fixed number of turns. It is named after the agent Manus.

        Args:
            budget: the tokens allowed.
            model: who summarizes; by default the agent's own model.
            count_tokens: counts the tokens of a text; four characters each by default.
        """
        return ManusCascade(count(budget, "C.manus_cascade()"), model, count_tokens)

    @staticmethod
    def notes(key: str) -> Context:
        """The scratchpad at a state key, which `write_notes` fills; like `from_state` otherwise."""
        return Scratchpads((check_key(key, "C.notes()"),))

    @staticmethod
    def write_notes(key: str, strategy: Literal["append", "replace"] = "append") -> Context:
        """Write the agent's answer to the scratchpad at a state key; what it sees stays as it is.

        Args:
            strategy: `append` it as a new line, or `replace` what is there.
        """
        one_of(strategy, ("append", "replace"), "C.write_notes()")
        return WriteNotes(check_key(key, "C.write_notes()"), strategy)

    @staticmethod
    def validate(*checks: Callable[[str], bool]) -> Context:
        """Raise `ContextError` before the model is called unless every `check(text)` holds.

        The text is the context with the current user message.
        """
        if not checks:
            raise ArgumentError("C.validate() needs at least one function of the text.")
        where = "C.validate()"
        return ValidateContext(tuple(function(plain(c, where), where) for c in checks))

    @staticmethod
    def when(predicate: Predicate | str, spec: Context) -> Context:
        """`spec` if `predicate(state)` holds, or the state key of that name is true; else as if not there."""
        if not isinstance(spec, Context):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            raise ArgumentError(f"C.when() takes a C spec, not {describe(spec)}.")
        if isinstance(predicate, str):
            check_key(predicate, "C.when()")
        else:
            observer(plain(predicate, "C.when()"), "C.when()")
        return ConditionalContext(predicate, parts=(spec,), contents=spec.contents)

    # --- steps ------------------------------------------------------------------------------------

    @staticmethod
    def capture(key: str) -> Step:
        """Make the same step as `S.capture`, beside `capture_turns`. Prefer `S.capture`: it writes state."""
        return Step.from_node(CaptureNode(key=check_key(key, "C.capture()")))

    @staticmethod
    def capture_turns(key: str, n: int = 5) -> Step:
        """A step that writes the last `n` turns as text to `key`."""
        turns = count(n, "C.capture_turns(n=)")
        return Step.from_node(CaptureNode(key=check_key(key, "C.capture_turns()"), turns=turns))


def _keys(keys: tuple[str, ...], where: str) -> tuple[str, ...]:
    if not keys:
        raise ArgumentError(f"{where} needs at least one key.")
    return tuple(dict.fromkeys(check_key(key, where) for key in keys))


def _pattern(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ArgumentError(f"C.redact(): {pattern!r:.40} is no regular expression: {error}.") from error
