"""`pii_filter`: personal data does not reach the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.errors import ArgumentError, MiddlewareError
from adk_fluent.middleware.arguments import flag
from adk_fluent.middleware.detecting import Detector, find_personal_data
from adk_fluent.middleware.filtering import Filter
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Kept
from adk_fluent.middleware.placeholders import Hiding, PIIRedactor, Restoring, Vault
from adk_fluent.middleware.protocol import CallModel, CallTool, Middleware

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content, Part

    from adk_fluent.backends.events import AgentEvent


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
        self._redactor = PIIRedactor(self._detector)
        self._vault: Kept[Vault] = self.per_run(partial(Vault, self._detector))

    async def on_user_message(self, ctx: Context, message: Content) -> Content | None:
        """Take personal data out of what is stored, unless it is to come back."""
        made = message if self._reversible else self._redacting().model(message)
        return None if made is message else made

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
        names = set[str]()
        if self._reversible:
            vault = self._vault(ctx)
            Filter(vault.note).request(request)
            Filter(vault.hide, numbers=True, names=names).request(request)
            back, stream = Filter(vault.restore, vault.restore_code, names=names), vault.stream
        else:
            back, stream = self._redacting(names), self._redactor.stream
            back.request(request)
        pieces = Pieces(stream, back)
        async for response in call(request):
            if response.partial:
                for piece in pieces.feed(response):
                    yield piece
                continue
            for rest in pieces.flush():
                yield rest
            yield back.model(response)
        for rest in pieces.flush():
            yield rest

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """Take it out of what tools are given and give, unless it is to come back."""
        if self._reversible:
            return await call(args)
        redacting = self._redacting()
        return redacting.data(await call(redacting.parameters(args)))

    async def after_tool(
        self, ctx: Context, tool_name: str, args: dict[str, Any], result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Take it out of what a hook answered in place of a tool: `on_tool_error` or `before_tool`."""
        made = result if self._reversible else self._redacting().data(result)
        if made is result or type(result) is not dict:
            return None if made is result else made
        result.clear()  # a result that is returned would keep the agent's own callbacks from being called
        result.update(made)
        return None

    async def on_event(self, ctx: Context, event: AgentEvent) -> Event | None:
        """Take it out of results that the callbacks of an agent made after everything else."""
        raw = event.raw
        if self._reversible or raw is None or not event.tool_responses:
            return None
        made = self._redacting().model(raw.content)
        return None if made is raw.content else raw.model_copy(update={"content": made})

    def _redacting(self, names: set[str] | None = None) -> Filter:
        return Filter(self._redactor.hide, numbers=True, names=names)


_Stream = Restoring | Hiding


class Pieces:
    """The pieces of a streamed answer: thoughts, text and each argument of a call are streams of their own.

    Args:
        stream: makes a stream.
        whole: for what comes in one piece.
    """

    def __init__(self, stream: Callable[[], _Stream], whole: Filter) -> None:
        self._stream, self._whole = stream, whole
        self._streams: dict[object, tuple[_Stream, Callable[[str], LlmResponse]]] = {}

    def feed(self, response: LlmResponse) -> Iterator[LlmResponse]:
        """The piece with as much of its text as can be said; nothing if that is none."""
        content = response.content
        if content is None or not content.parts:
            yield self._whole.model(response)
            return
        if any(part.function_call and part.function_call.name for part in content.parts):  # another call
            yield from self.flush()
        parts = [made for part in content.parts if (made := self._part(response, part)) is not None]
        if parts:
            yield _saying(response, parts)

    def flush(self) -> Iterator[LlmResponse]:
        """What was held back, as pieces."""
        streams, self._streams = self._streams, {}
        for stream, saying in streams.values():
            if rest := stream.flush():
                yield saying(rest)

    def _part(self, response: LlmResponse, part: Part) -> Part | None:
        if part.text:
            stream = self._at(bool(part.thought), lambda text: _saying(response, [_with_text(part, text)]))
            said = stream.feed(part.text)
            return _with_text(part, said) if said else None
        call = part.function_call
        given = getattr(call, "partial_args", None)  # not every google-genai has it
        if call is None or not given:
            return self._whole.model(part)
        args = [self._argument(response, part, arg) for arg in given]
        return part.model_copy(update={"function_call": call.model_copy(update={"partial_args": args})})

    def _argument(self, response: LlmResponse, part: Part, arg: Any) -> Any:
        if arg.string_value is None:
            return arg

        def saying(text: str) -> LlmResponse:
            last = arg.model_copy(update={"string_value": text})
            update = {"partial_args": [last], "name": None}  # a name begins a call
            call = cast(Any, part.function_call).model_copy(update=update)
            return _saying(response, [part.model_copy(update={"function_call": call})])

        stream = self._at(arg.json_path, saying)
        text = stream.feed(arg.string_value)
        return arg.model_copy(update={"string_value": text})

    def _at(self, place: object, saying: Callable[[str], LlmResponse]) -> _Stream:
        """The stream of this place; what it holds back is said as the last piece was."""
        stream = self._streams[place][0] if place in self._streams else self._stream()
        self._streams[place] = (stream, saying)
        return stream


def _with_text(part: Part, text: str) -> Part:
    return part.model_copy(update={"text": text})


def _saying(response: LlmResponse, parts: list[Part]) -> LlmResponse:
    content = cast("Content", response.content).model_copy(update={"parts": parts})
    return response.model_copy(update={"content": content})
