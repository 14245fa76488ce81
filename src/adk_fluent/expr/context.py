"""`C`: factories of context specs, which select the part of the conversation that an agent sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from adk_fluent.context import control, extraction, filters, model_operations, sources
from adk_fluent.context.entries import CountTokens
from adk_fluent.context.spec import Context
from adk_fluent.errors import ArgumentError
from adk_fluent.expr import arguments
from adk_fluent.expr.base import Step
from adk_fluent.ir.nodes import CaptureNode
from adk_fluent.ir.predicates import Predicate, plain
from adk_fluent.middleware.arguments import flag
from adk_fluent.spelling import Namespace

if TYPE_CHECKING:
    from google.adk.models import BaseLlm
    from pydantic import BaseModel

    Model = str | BaseLlm
    Scorer = Callable[[str, str], float] | str | model_operations.Embedder

__all__ = ["C"]


class C(metaclass=Namespace):
    """Factories of context specs: give one to `Agent.context`.

    Each factory returns a frozen value. `a + b` selects what `a` or `b` selects; `a | b` applies `b` to the
    selection of `a`; a filter alone filters the whole conversation. With every spec, the model receives the
    current user message once, and its own tool calls and results of the current turn. The rest of the
    selection is in a `<conversation_context>` block at the end of the instruction, or, with
    `.as_contents()`, among the messages. The model does not receive text that a spec leaves out.

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
        """Select the whole conversation, as ADK itself sends it."""
        return sources.DefaultContext()

    @staticmethod
    def none() -> Context:
        """Select only the current user message and the agent's own tool use in this turn."""
        return sources.Nothing()

    @staticmethod
    def user_only() -> Context:
        """Select the user's messages, without the text of agents."""
        return sources.UserOnly()

    # --- selection --------------------------------------------------------------------------------

    @staticmethod
    def from_state(*keys: str) -> Context:
        """Show state values, each as `[key]: value`; a key that is not set is left out.

        Alone, the spec leaves the whole conversation out; in a `+`, the other part selects from it.
        """
        return sources.StateValues(_keys(keys, "C.from_state()"))

    @staticmethod
    def from_agents(*names: str) -> Context:
        """Select the user's messages, and the texts and tool calls of these agents."""
        return sources.FromAgents(arguments.agent_names(names, "C.from_agents()"))

    @staticmethod
    def exclude_agents(*names: str) -> Context:
        """Select the conversation without the texts and tool calls of these agents."""
        return sources.ExcludeAgents(arguments.agent_names(names, "C.exclude_agents()"))

    @staticmethod
    def window(n: int = 5) -> Context:
        """Select the last `n` turns, including the current one."""
        return sources.Window(arguments.count(n, "C.window(n=)"))

    @staticmethod
    def last_n_turns(n: int) -> Context:
        """Do the same as `window(n)`. Prefer `window`."""
        return C.window(n)

    @staticmethod
    def template(text: str) -> Context:
        """Show a text instead of the conversation; `{key}` and `{key?}` are filled from state.

        A required key that is not set raises `MissingKeyError`.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            raise ArgumentError(f"C.template() takes text, not {arguments.describe(cast(object, text))}.")
        return sources.Template(text)

    # --- filtering --------------------------------------------------------------------------------

    @staticmethod
    def select(
        *, author: str | Sequence[str] | None = None, type: str | None = None, tag: str | None = None
    ) -> Context:
        """Select the events that match all given conditions.

        Args:
            author: an agent's name, `user`, or several of them.
            type: `text`, `tool_call`, `tool_response` or `file`.
            tag: a label that the event's `custom_metadata` lists under `tags`.
        """
        names = None if author is None else [author] if isinstance(author, str) else author
        authors = None if names is None else arguments.words(names, "C.select(author=)")
        arguments.one_of(type, (None, *sources.ENTRY_TYPES), "C.select(type=)")
        return sources.Select(authors, type, arguments.optional_text(tag, "C.select(tag=)"))

    @staticmethod
    def recent(half_life: float = 10, min_weight: float = 0.1) -> Context:
        """Select recent events: the weight of an event halves every `half_life` turns.

        Args:
            half_life: number of turns after which the weight of an event is halved.
            min_weight: least weight of a selected event; an event of the current turn has the weight 1.
        """
        if arguments.positive_number(min_weight, "C.recent(min_weight=)") > 1:
            raise ArgumentError(f"C.recent(min_weight=) is above 0 and at most 1, not {min_weight!r}.")
        return filters.RecentTurns(arguments.positive_number(half_life, "C.recent()"), min_weight)

    @staticmethod
    def compact() -> Context:
        """Join adjacent texts of one author, and write each finished tool call and its result in one line."""
        return filters.Compact()

    @staticmethod
    def dedup(strategy: Literal["exact", "normalized", "semantic"] = "exact") -> Context:
        """Keep only the first of equal texts.

        Args:
            strategy: `exact` compares the texts; `normalized` ignores case, punctuation and white space;
                `semantic` treats texts of nearly the same words as equal (a cosine of word counts of at least
                0.85), without a model.
        """
        arguments.one_of(strategy, ("exact", "normalized", "semantic"), "C.dedup()")
        return filters.Dedup(strategy)

    @staticmethod
    def truncate(
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        strategy: Literal["tail", "head", "middle"] = "tail",
        count_tokens: CountTokens | None = None,
    ) -> Context:
        """Limit the selection to a number of turns, of tokens, or both.

        Args:
            max_turns: most turns, including the current one.
            max_tokens: most tokens in the `<conversation_context>` block.
            strategy: the part to keep: `tail` the newest, `head` the oldest, `middle` both ends.
            count_tokens: function that counts the tokens of a text; by default a token per four characters.
        """
        if max_turns is None and max_tokens is None:
            raise ArgumentError("C.truncate() needs max_turns= or max_tokens=.")
        arguments.one_of(strategy, ("tail", "head", "middle"), "C.truncate(strategy=)")
        turns = None if max_turns is None else arguments.count(max_turns, "C.truncate(max_turns=)")
        tokens = None if max_tokens is None else arguments.count(max_tokens, "C.truncate(max_tokens=)")
        return filters.Truncate(
            turns, tokens, strategy, arguments.counting(count_tokens, "C.truncate(count_tokens=)")
        )

    @staticmethod
    def project(*fields: str) -> Context:
        """Keep only these parts of each event: `text`, `function_calls`, `function_responses`, `files`."""
        if not fields:
            raise ArgumentError(f"C.project() needs at least one of {', '.join(filters.FIELDS)}.")
        for field in fields:
            arguments.one_of(field, filters.FIELDS, "C.project()")
        return filters.Project(fields)

    # --- constraints ------------------------------------------------------------------------------

    @staticmethod
    def budget(
        max_tokens: int,
        overflow: Literal["truncate_oldest", "error", "summarize"] = "truncate_oldest",
        *,
        model: Model | None = None,
        count_tokens: CountTokens | None = None,
    ) -> Context:
        """Limit the tokens of the selection together with the state values beside it.

        The current user message and the agent's own tool use of the turn do not count, and are never cut.

        Args:
            max_tokens: most tokens.
            overflow: the action beyond the limit: `truncate_oldest` leaves out the oldest, starting with a
                low `priority`; `error` raises `ContextError` before the model is called; `summarize` replaces
                the oldest by a summary.
            model: the model that summarizes; by default the agent's own model.
            count_tokens: function that counts the tokens of a text; by default a token per four characters.
        """
        arguments.one_of(overflow, ("truncate_oldest", "error", "summarize"), "C.budget(overflow=)")
        helper = arguments.optional_model(model, "C.budget(model=)")
        counter = arguments.counting(count_tokens, "C.budget(count_tokens=)")
        return model_operations.Budget(arguments.count(max_tokens, "C.budget()"), overflow, helper, counter)

    @staticmethod
    def priority(tier: int) -> Context:
        """Set the tier of the selection, 0 by default; a budget leaves out lower tiers first."""
        if not isinstance(tier, int) or isinstance(tier, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            raise ArgumentError(
                f"C.priority() takes a whole number, not {arguments.describe(cast(object, tier))}."
            )
        return filters.Priority(tier)

    @staticmethod
    def fit(max_tokens: int, *, count_tokens: CountTokens | None = None) -> Context:
        """Compact, then remove repetition, then truncate, until the selection has at most `max_tokens`."""
        return filters.Fit(
            arguments.count(max_tokens, "C.fit()"), arguments.counting(count_tokens, "C.fit(count_tokens=)")
        )

    @staticmethod
    def fresh(max_age: float) -> Context:
        """Select the events of the last `max_age` seconds."""
        return filters.Fresh(arguments.positive_number(max_age, "C.fresh()"))

    @staticmethod
    def redact(*patterns: str | re.Pattern[str], replacement: str = "[REDACTED]") -> Context:
        """Replace every match of the regular expressions, also in the current user message."""
        if not patterns:
            raise ArgumentError("C.redact() needs at least one regular expression.")
        instead = arguments.text(replacement, "C.redact(replacement=)")
        return filters.Redact(tuple((p.pattern, p.flags) for p in map(_pattern, patterns)), instead)

    # --- with a model -----------------------------------------------------------------------------

    @staticmethod
    def summarize(
        *,
        model: Model | None = None,
        prompt: str | None = None,
        scope: Literal["all", "earlier", "tools"] = "all",
    ) -> Context:
        """Replace the selection by a summary of a helper model.

        The helper model's answer is cached for the same content, and its tokens count for the agent. If the
        call fails, a warning is logged on `adk_fluent.context` and the selection stays unchanged. The same
        holds for `relevant`, `extract`, `distill`, `rolling`, `manus_cascade` and `budget`.

        Args:
            model: the helper model; by default the agent's own model.
            prompt: the instruction for the helper model, instead of the built-in one.
            scope: the part to summarize: `all`, only `earlier` turns, or only `tools` (calls and results).
        """
        arguments.one_of(scope, ("all", "earlier", "tools"), "C.summarize(scope=)")
        helper = arguments.optional_model(model, "C.summarize(model=)")
        return model_operations.Summarize(
            helper, arguments.optional_text(prompt, "C.summarize(prompt=)"), scope
        )

    @staticmethod
    def relevant(
        *,
        query: str | None = None,
        query_key: str | None = None,
        top_k: int = 5,
        scorer: Scorer | None = None,
        model: Model | None = None,
    ) -> Context:
        """Select the `top_k` texts that are most relevant to a question.

        Args:
            query: the question; by default the current user message.
            query_key: the state key that holds the question, instead of `query`.
            top_k: number of texts to keep.
            scorer: `(query, text) -> float`, higher is better; or an embedding model: its name, or an object
                with `embed(texts)` that returns a vector for each text. By default a model chooses.
            model: the model that chooses; by default the agent's own model.
        """
        if query is not None and query_key is not None:
            raise ArgumentError("C.relevant() takes query= or query_key=, not both.")
        key = None if query_key is None else arguments.check_key(query_key, "C.relevant(query_key=)")
        best = arguments.count(top_k, "C.relevant(top_k=)")
        helper = arguments.optional_model(model, "C.relevant(model=)")
        return model_operations.Relevant(
            arguments.optional_text(query, "C.relevant(query=)"), key, best, _scorer(scorer), helper
        )

    @staticmethod
    def extract(schema: type[BaseModel], *, into: str, model: Model | None = None) -> Context:
        """Replace the selection by data that a helper model extracts from it; state stores the data, too.

        Args:
            schema: the pydantic model of the data.
            into: the state key for the data as a dict, and its label in the context.
            model: the helper model; by default the agent's own model.
        """
        if not hasattr(schema, "model_json_schema") or not isinstance(schema, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            given = arguments.describe(cast(object, schema))
            raise ArgumentError(f"C.extract() takes a pydantic model class, not {given}.")
        key = arguments.check_key(into, "C.extract(into=)")
        return extraction.Extract(schema, key, arguments.optional_model(model, "C.extract(model=)"))

    @staticmethod
    def distill(*, into: str, model: Model | None = None) -> Context:
        """Replace the selection by facts that a helper model finds in it, one a line; also stored in state.

        Args:
            into: the state key for the lines, and their label in the context.
            model: the helper model; by default the agent's own model.
        """
        key = arguments.check_key(into, "C.distill(into=)")
        return extraction.Distill(key, arguments.optional_model(model, "C.distill(model=)"))

    # --- ready-made -------------------------------------------------------------------------------

    @staticmethod
    def rolling(n: int, *, summarize: bool = False, model: Model | None = None) -> Context:
        """Select the last `n` turns; with `summarize`, add one summary of all earlier turns."""
        helper = arguments.optional_model(model, "C.rolling(model=)")
        return model_operations.Rolling(
            arguments.count(n, "C.rolling()"), flag(summarize, "C.rolling(summarize=)"), helper
        )

    @staticmethod
    def from_agents_windowed(**agent_to_n: int) -> Context:
        """Select the user's messages, and for each named agent its last `n` texts and the events since then.

        Use it for loops: a writer needs the last remark of its critic, and not all of them.
        `from_agents` selects all texts of an agent; `window` counts turns of the conversation.

        Args:
            agent_to_n: the number of texts for each agent's name.

        >>> from adk_fluent import Agent, C, until
        >>> writer = Agent("writer").context(C.from_agents_windowed(writer=1, critic=1))
        >>> draft = (writer >> Agent("critic").writes("verdict")) * until(lambda s: s["verdict"] == "ok")
        """
        arguments.agent_names(tuple(agent_to_n), "C.from_agents_windowed()")
        pairs = tuple(
            (name, arguments.count(n, f"C.from_agents_windowed({name}=)")) for name, n in agent_to_n.items()
        )
        return sources.FromAgentsWindowed(pairs)

    @staticmethod
    def user(strategy: Literal["all", "first", "last", "bookend"] = "all") -> Context:
        """Select the user's messages: all, the first, the last (the current one), or the first and last."""
        arguments.one_of(strategy, ("all", "first", "last", "bookend"), "C.user()")
        return sources.User(strategy)

    @staticmethod
    def manus_cascade(
        budget: int, *, model: Model | None = None, count_tokens: CountTokens | None = None
    ) -> Context:
        """Shrink the history step by step until it fits: compact, drop repetition, summarize, truncate.

        Use it for agents that work for a long time and call many tools. The first two steps need no model; a
        helper model writes a summary only if they are not enough. `budget` only removes the oldest, or
        summarizes it; `rolling` keeps a fixed number of turns. It is named after the agent Manus.

        Args:
            budget: most tokens.
            model: the helper model; by default the agent's own model.
            count_tokens: function that counts the tokens of a text; by default a token per four characters.
        """
        helper = arguments.optional_model(model, "C.manus_cascade(model=)")
        counter = arguments.counting(count_tokens, "C.manus_cascade(count_tokens=)")
        return model_operations.ManusCascade(arguments.count(budget, "C.manus_cascade()"), helper, counter)

    @staticmethod
    def notes(key: str) -> Context:
        """Show the scratchpad at a state key, which `write_notes` fills; otherwise like `from_state`."""
        return sources.Scratchpads((arguments.check_key(key, "C.notes()"),))

    @staticmethod
    def write_notes(key: str, strategy: Literal["append", "replace"] = "append") -> Context:
        """Write the agent's answer to the scratchpad at a state key; the context does not change.

        Args:
            key: the state key.
            strategy: `append` the answer as a new line, or `replace` the scratchpad.
        """
        arguments.one_of(strategy, ("append", "replace"), "C.write_notes()")
        return control.WriteNotes(arguments.check_key(key, "C.write_notes()"), strategy)

    @staticmethod
    def validate(*checks: Callable[[str], bool]) -> Context:
        """Raise `ContextError` before the model is called unless every `check(text)` holds.

        The text is the context with the current user message.
        """
        if not checks:
            raise ArgumentError("C.validate() needs at least one function of the text.")
        where = "C.validate()"
        what = "functions of the text"
        return control.ValidateContext(
            tuple(arguments.unary(arguments.function(plain(c, where), where), where, what) for c in checks)
        )

    @staticmethod
    def when(predicate: Predicate | str, spec: Context) -> Context:
        """Apply `spec` only if `predicate(state)` holds, or if the state key of that name is true."""
        if not isinstance(spec, Context):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be type-checked
            raise ArgumentError(f"C.when() takes a C spec, not {arguments.describe(spec)}.")
        if isinstance(predicate, str):
            arguments.check_key(predicate, "C.when()")
        else:
            arguments.observer(plain(predicate, "C.when()"), "C.when()")
        return control.ConditionalContext(predicate, parts=(spec,), contents=spec.contents)

    # --- steps ------------------------------------------------------------------------------------

    @staticmethod
    def capture(key: str) -> Step:
        """Make the same step as `S.capture`. Prefer `S.capture`, because the step writes state."""
        return Step.from_node(CaptureNode(key=arguments.check_key(key, "C.capture()")))

    @staticmethod
    def capture_turns(key: str, n: int = 5) -> Step:
        """Make a step that writes the last `n` turns as text to `key`."""
        turns = arguments.count(n, "C.capture_turns(n=)")
        return Step.from_node(CaptureNode(key=arguments.check_key(key, "C.capture_turns()"), turns=turns))


def _keys(keys: tuple[str, ...], where: str) -> tuple[str, ...]:
    if not keys:
        raise ArgumentError(f"{where} needs at least one key.")
    return tuple(dict.fromkeys(arguments.check_key(key, where) for key in keys))


def _scorer(scorer: Any) -> Any:
    """Return a scorer of `C.relevant`: `None`, a function of two texts, or an embedding model.

    Raises:
        ArgumentError: the value is something else, or async.
    """
    made = hasattr(scorer, "embed") and not isinstance(scorer, type)
    if scorer is None or made or (isinstance(scorer, str) and scorer.strip()):
        return scorer
    if callable(scorer) and not isinstance(scorer, type | Step):
        return plain(scorer, "C.relevant(scorer=)")
    raise ArgumentError(
        "C.relevant(scorer=) takes a function (query, text) -> float, or an embedding model: its name, or an "
        f"object with embed(texts); not {arguments.describe(cast(object, scorer))}."
    )


def _pattern(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    given: object = getattr(pattern, "pattern", pattern)
    if not isinstance(given, str):  # bytes match no text
        raise ArgumentError(
            f"C.redact() takes regular expressions as text, not {arguments.describe(pattern)}."
        )
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ArgumentError(f"C.redact(): {pattern!r:.40} is no regular expression: {error}.") from error
