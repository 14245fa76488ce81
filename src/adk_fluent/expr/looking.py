"""Looking: the methods that say and draw what an expression is, without a model being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from google.genai.types import Content, Part

    from adk_fluent.backends.adk.api import Response
    from adk_fluent.backends.preview import Preview
    from adk_fluent.cost.estimate import CostEstimate
    from adk_fluent.inspection.anatomy import LlmAnatomy
    from adk_fluent.inspection.concerns import DataFlows
    from adk_fluent.inspection.explanation import Explanation
    from adk_fluent.inspection.presentation import PerAgent
    from adk_fluent.ir.base import Node

    Prompt = str | Content | Part | Sequence[str | Part]


class Looking:
    """What every expression can say of itself."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The IR node that this expression is."""
            ...

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """As a notebook shows it: the picture; the text alone for what is too unfinished to draw."""
        from adk_fluent.errors import ADKFluentError

        shown = {"text/plain": repr(self)}
        try:
            return {**shown, "image/svg+xml": self.visualize("svg"), "text/vnd.mermaid": self.visualize()}
        except ADKFluentError:
            return shown

    def data_flow(self) -> DataFlows:
        """Show what each agent of this expression reads, accepts, returns, writes and promises.

        Use it to see which state keys join two agents; `explain()` shows more. `str()` is text for a person.

        >>> from adk_fluent import Agent
        >>> (Agent("a").writes("x") >> Agent("b").reads("x")).data_flow()["b"].reads
        "C.from_state('x') — state keys only"
        """
        from adk_fluent.inspection.concerns import data_flow

        return data_flow(self.node)

    def llm_anatomy(self) -> PerAgent[LlmAnatomy]:
        """Show what each agent's model will be sent, through which channel; `str()` is text for a person.

        >>> from adk_fluent import Agent
        >>> found = (Agent("a").writes("x") >> Agent("b").reads("x")).llm_anatomy()
        >>> found["b"].history, found["b"].context
        ('SUPPRESSED', 'state["x"] injected')
        """
        from adk_fluent.inspection.anatomy import llm_anatomy

        return llm_anatomy(self.node)

    def explain(self) -> Explanation:
        """Show all that is known before a run: the shape, what goes into and out of each agent, the findings.

        >>> from adk_fluent import Agent
        >>> print(Agent("helper").model("gemini-2.5-flash").instruct("Help.").explain())  # doctest: +ELLIPSIS
        helper (agent)
          model:        gemini-2.5-flash
          instruction:  "Help."
        ...
        """
        from adk_fluent.inspection.explanation import explain

        return explain(self.node)

    async def preview(
        self,
        prompt: Prompt,
        responses: Mapping[str, Response] | None = None,
        *,
        state: Mapping[str, Any] | None = None,
    ) -> Preview:
        """The exact requests that a run would send, put together by ADK itself; no real model is asked.

        Tools are not run, unless one of `responses` calls them.

        Args:
            prompt: what the user says; as for `run`.
            responses: agent → what its model answers, as for `mock_backend`. An agent without one gives the
                smallest instance of the type it `returns`; the first value that a route, or else a loop,
                compares the key with that it writes; or a sentence that says whose answer this is.
            state: what is in the session before.

        Returns:
            Agent → its `LlmRequest`s in call order; `str()` shows all of them.

        Raises:
            ArgumentError: `responses` names an agent that is not there.
            RunError: a real run would fail in the same way, as for a missing key.

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
        """The expression as a picture, made in this process, without a network.

        Control is solid, state from writer to reader dashed. What the user hears has a thick border and says
        so, what says nothing a dashed one.

        Args:
            format: `mermaid` gives the text of a Mermaid flowchart; `svg` an image as text; `html` one
                self-contained page that shows, on a click, what a step sees, writes and does wrong; `png`
                the bytes of an image, and needs the extra `viz`.
            cost: an estimate of `adk_fluent.cost.estimate_cost`; each agent then shows what it costs per
                invocation.

        Raises:
            ArgumentError: there is no such format, or `cost` is no estimate.
            MissingExtraError: `png` without the extra.

        >>> from adk_fluent import Agent
        >>> print((Agent("a").writes("x") >> Agent("b")).visualize())  # doctest: +ELLIPSIS
        flowchart TD
        ...
        """
        from adk_fluent.errors import ArgumentError
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
