"""`pii_filter`: personal data does not reach the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from adk_fluent.errors import ArgumentError, MiddlewareError
from adk_fluent.middleware.arguments import flag
from adk_fluent.middleware.detecting import Detector, find_personal_data
from adk_fluent.middleware.keeping import Kept
from adk_fluent.middleware.messages import Change, ChangeJson, change_request, changed, with_content
from adk_fluent.middleware.placeholders import Hiding, Redactor, Restoring, Vault
from adk_fluent.middleware.protocol import CallModel, CallTool, Context, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content, Part


def pii_filter(detector: Detector | None = None, reversible: bool = False) -> PiiFilter:
    """Keep personal data from the model: e-mail addresses, telephone, card and account numbers, SSNs, IPs.

    Without `reversible` it is taken out of the user's messages before they are stored, of all that is sent to
    a model, of what models answer, and of the arguments and results of tools: `[EMAIL]` stands there instead,
    in the session, in traces and in logs.

    With `reversible` only the model is kept from it: each value becomes a placeholder such as `[EMAIL_1]` in
    what is sent, and is put back in what comes in, also in pieces of a stream and in the arguments of tools.
    The user, the tools, the session and the next agents see the real values. A model can tell two people
    apart and can write to either; so a tool that it calls may be given any value that it has seen a
    placeholder of.

    What is found, and what is not (names, postal addresses), says `find_personal_data` of
    `adk_fluent.middleware`.

    Args:
        detector: a function of a text that gives `(start, end, kind)` for each piece of personal data; by
            default `find_personal_data`. It must be quick: it reads everything that is sent, every time.
        reversible: whether the placeholders are turned back.

    Raises:
        ArgumentError: the detector is no function.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> backend = mock_backend({"a": lambda request: "I read: " + request.contents[0].parts[0].text})
        >>> agent = Agent("a").middleware(pii_filter())
        >>> asyncio.run(agent.ask_async("I am ann@example.org", backend=backend))
        'I read: I am [EMAIL]'
    """
    return PiiFilter(detector, reversible)


class PiiFilter(Middleware):
    """What `pii_filter()` makes."""

    def __init__(self, detector: Detector | None, reversible: bool) -> None:
        if detector is not None and (not callable(detector) or isinstance(detector, type)):
            raise ArgumentError(
                "pii_filter(detector=) is a function of a text that gives (start, end, kind), "
                f"not {detector!r:.40}."
            )
        self._detector = detector or find_personal_data
        self._reversible = flag(reversible, "pii_filter(reversible=)")
        self._redactor = Redactor(self._detector)
        self._vault: Kept[Vault] = self.per_run(lambda: Vault(self._detector))

    async def on_user_message(self, ctx: Context, message: Content) -> Content | None:
        """Take personal data out of what is stored, unless it is to come back."""
        if self._reversible:
            return None
        return changed(message, self._redactor.hide, self._redactor.hide_in)

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        """Refuse a live conversation, of which it would see nothing."""
        if ctx.live:
            raise MiddlewareError(
                f"{agent_name!r}: pii_filter cannot keep personal data from a model that is spoken to live. "
                "Take it off this agent, or use run or a session."
            )

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Hide it from the model, and from everybody what the model says of it, or put it back."""
        hidden = self._vault(ctx) if self._reversible else self._redactor
        change_request(request, hidden.hide, hidden.hide_in)
        back: _Back = (
            (hidden.restore, hidden.restore_in)
            if isinstance(hidden, Vault)
            else (hidden.hide, hidden.hide_in)
        )
        pieces = _Pieces(hidden.stream, back[1])
        async for response in call(request):
            if response.partial:
                yield pieces.feed(response)
                continue
            for rest in pieces.flush():
                yield rest
            content = response.content
            yield with_content(response, changed(content, *back)) if content else response
        for rest in pieces.flush():
            yield rest

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """Take it out of what tools are given and give, unless it is to come back."""
        if self._reversible:
            return await call(args)
        return self._redactor.hide_in(await call(self._redactor.hide_in(args)))


_Back = tuple[Change, ChangeJson]


class _Pieces:
    """The pieces of a streamed answer; thoughts and text are streams of their own."""

    def __init__(self, stream: Callable[[], Restoring | Hiding], value: ChangeJson) -> None:
        self._stream, self._value = stream, value
        self._streams: dict[bool, tuple[Restoring | Hiding, LlmResponse, Part]] = {}

    def feed(self, response: LlmResponse) -> LlmResponse:
        """A piece, with as much of its text as can be said."""
        content = response.content
        if content is None:
            return response
        parts: list[Part] = []
        for part in content.parts or ():
            if part.text:
                thought = bool(part.thought)
                stream = self._streams[thought][0] if thought in self._streams else self._stream()
                self._streams[thought] = (stream, response, part)
                part = part.model_copy(update={"text": stream.feed(part.text)})
            parts.append(part)
        piece = content.model_copy(update={"parts": parts})
        return with_content(response, changed(piece, lambda text: text, self._value))

    def flush(self) -> Iterator[LlmResponse]:
        """What was held back, as pieces."""
        streams, self._streams = self._streams, {}
        for stream, response, part in streams.values():
            if (rest := stream.flush()) and response.content is not None:
                last = part.model_copy(update={"text": rest})
                yield with_content(response, response.content.model_copy(update={"parts": [last]}))
