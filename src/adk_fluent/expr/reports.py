"""`Reports`: the methods that explain and draw an expression; none of them calls a real model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from adk_fluent import inspection
from adk_fluent.errors import ADKFluentError, ArgumentError

if TYPE_CHECKING:
    from google.genai.types import Content, Part

    from adk_fluent.backends.adk.api import Response
    from adk_fluent.backends.preview import Preview
    from adk_fluent.cost.estimate import CostEstimate
    from adk_fluent.inspection import Explanation, LlmAnatomy, PerAgent
    from adk_fluent.inspection.explanation import DataFlows
    from adk_fluent.ir.base import Node

Prompt: TypeAlias = "str | Content | Part | Sequence[str | Part]"


class Reports:
    """Methods of every expression that report on it before a run."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The expression's IR node."""
            ...

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The picture for a notebook; only text if the expression is incomplete and cannot be drawn."""
        shown = {"text/plain": repr(self)}
        try:
            return {**shown, "image/svg+xml": self.visualize("svg"), "text/vnd.mermaid": self.visualize()}
        except ADKFluentError:
            return shown

    def data_flow(self) -> DataFlows:
        """Show what each agent of this expression reads, accepts, returns, writes and promises.

        Use it to see which state keys connect two agents; `explain()` shows more. `str()` returns text.

        >>> from adk_fluent import Agent
        >>> (Agent("a").writes("x") >> Agent("b").reads("x")).data_flow()["b"].reads
        "C.from_state('x') — state keys only"
        """
        return inspection.data_flow(self.node)

    def llm_anatomy(self) -> PerAgent[LlmAnatomy]:
        """Show the request that each agent's model will receive, channel by channel; `str()` returns text.

        >>> from adk_fluent import Agent
        >>> found = (Agent("a").writes("x") >> Agent("b").reads("x")).llm_anatomy()
        >>> found["b"].history, found["b"].context
        ('SUPPRESSED', 'state["x"] injected')
        """
        return inspection.llm_anatomy(self.node)

    def explain(self) -> Explanation:
        """Report all that is known before a run: the steps, each agent's inputs and outputs, the findings.

        >>> from adk_fluent import Agent
        >>> print(Agent("helper").model("gemini-2.5-flash").instruct("Help.").explain())  # doctest: +ELLIPSIS
        helper (agent)
          model:        gemini-2.5-flash
          instruction:  "Help."
        ...
        """
        return inspection.explain(self.node)

    async def preview(
        self,
        prompt: Prompt,
        responses: Mapping[str, Response] | None = None,
        *,
        state: Mapping[str, Any] | None = None,
    ) -> Preview:
        """Return the exact requests that a run would send, built by ADK itself; no real model is called.

        Tools run only if one of `responses` calls them.

        Args:
            prompt: the user's message; as for `run`.
            responses: the answers of each agent's model, as for `mock_backend`. An agent without an entry
                gives the smallest instance of the type it `returns`; else the first value with which a route,
                or a loop, compares the key that it writes; else a sentence with its name.
            state: the session's state before the run.

        Returns:
            For each agent, its `LlmRequest`s in call order; `str()` shows all of them.

        Raises:
            ArgumentError: `responses` names an agent that does not exist.
            RunError: a real run would fail in the same way, for example because a key is missing.

        >>> import asyncio
        >>> from adk_fluent import Agent, C
        >>> pipeline = Agent("a").writes("x") >> Agent("b").context(C.none()).instruct("Use {x}.")
        >>> found = asyncio.run(pipeline.preview("Hi", {"a": "this"}))
        >>> found["b"][0].contents[0].parts[0].text
        'Hi'
        """
        from adk_fluent.backends.preview import preview

        return await preview(self, prompt, responses, state=state)

    @overload
    def visualize(
        self, format: Literal["mermaid", "svg", "html"] = "mermaid", *, cost: CostEstimate | None = None
    ) -> str: ...
    @overload
    def visualize(self, format: Literal["png"], *, cost: CostEstimate | None = None) -> bytes: ...
    def visualize(
        self,
        format: Literal["mermaid", "svg", "html", "png"] = "mermaid",
        *,
        cost: CostEstimate | None = None,
    ) -> str | bytes:
        """Draw the expression, in this process and without a network.

        Solid lines are control; dashed lines lead from the writer of a state key to its reader. A step whose
        text the user sees has a thick border and a label; a step without text has a dashed border.

        Args:
            format: `mermaid` returns the text of a Mermaid flowchart; `svg` an image as text; `html` one
                self-contained page that shows, on a click, what a step sees and writes, and its findings;
                `png` the bytes of an image, and needs the extra `viz`.
            cost: an estimate of `adk_fluent.cost.estimate_cost`; each agent then shows its cost per
                invocation.

        Raises:
            ArgumentError: there is no such format, or `cost` is not an estimate.
            MissingExtraError: the format is `png`, and the extra is not installed.

        >>> from adk_fluent import Agent
        >>> print((Agent("a").writes("x") >> Agent("b")).visualize())  # doctest: +ELLIPSIS
        flowchart TD
        ...
        """
        from adk_fluent.viz import to_html, to_mermaid, to_png, to_svg

        notes: Mapping[str, str] = {}
        if cost is not None:
            from adk_fluent.cost import CostEstimate

            if not isinstance(cost, CostEstimate):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise ArgumentError(
                    f"visualize(cost=) takes a CostEstimate of estimate_cost(...), not {cost!r:.40}."
                )
            notes = cost.notes()
        match format:
            case "mermaid":
                return to_mermaid(self.node, notes=notes)
            case "svg":
                return to_svg(self.node, notes=notes)
            case "html":
                return to_html(self.node, notes=notes)
            case "png":
                return to_png(self.node, notes=notes)
        raise ArgumentError(f"visualize(format={format!r}): choose 'mermaid', 'svg', 'png' or 'html'.")
