"""`LocalLlm`: an ADK model that needs no network."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, cast

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.utils.streaming_utils import StreamingResponseAggregator
from google.genai import types
from pydantic import ConfigDict, Field

from adk_fluent.errors import LocalModelError
from adk_fluent.local.engine import Chunk, EngineSettings, engine, weights
from adk_fluent.local.messages import chat_messages
from adk_fluent.local.reply import ReplyFormat, reply_for
from adk_fluent.local.schema import JsonSchema


class LocalLlm(BaseLlm):
    """SmolLM2-135M-Instruct, or another GGUF model, running in this process.

    The model is loaded on the first request, once per process, and shared by every `LocalLlm` with the
    same `path`, `threads` and `context_tokens`. Any number of agents may use it at once: two requests
    are generated together, more wait. Cancelling a request stops its generation. A process forked after
    that may ask it, too, if it ends as those of `multiprocessing` do, with `os._exit`.

    An output schema is enforced while the text is generated, so the answer always parses. What the
    schema leaves open is bounded: strings to 160 characters on one line (40 with a pattern or format),
    lists to 5 items, numbers to a million with two decimals. `uniqueItems` is not enforced. A string's
    `pattern` with a fixed beginning, such as `^We can offer you[a-z ]{5,60}[.]$`, keeps it on the subject.

    Function tools work by letting the model choose between a call and an answer under a schema, each
    tool once per user message. With 135M parameters it chooses poorly, as it does everything: expect
    fluent text, valid JSON and little truth.

    Attributes:
        model: The name shown in traces. Does not choose the weights. Default `"smollm2-135m"`.
        path: A GGUF file to use instead of the packaged weights. Default `None`.
        threads: CPU threads. More than the idle cores is many times slower, not faster. Default 1.
        max_tokens: Most tokens of one answer. Default 256.
        temperature: 0 always gives the same answer to the same request; higher varies. Default 0.
        context_tokens: Most tokens of request and answer together. Default 4096.
        seed: Seed of the sampling when `temperature` is above 0. Default 0.

    An agent's own `temperature`, `max_output_tokens`, `seed`, `top_p`, `top_k` and `stop_sequences` in
    its `generate_content_config` come first.

    Raises (from a request):
        LocalModelError: the model is not installed, the request has images or other media, it is too
            long, or JSON was cut off by `max_tokens`.

    Example:
        >>> from google.adk.agents import LlmAgent
        >>> agent = LlmAgent(name="clerk", model=LocalLlm(max_tokens=60), instruction="Be brief.")
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    model: str = "smollm2-135m"
    path: str | None = None
    threads: int = Field(default=1, ge=1)
    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=0.0, ge=0.0)
    context_tokens: int = Field(default=4096, ge=256)
    seed: int = Field(default=0, ge=0)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        """Answer one request.

        Args:
            llm_request: What ADK asks.
            stream: Also yield each piece of text as it is generated, as responses with `partial=True`,
                before the whole one. A tool call comes as a whole.
        """
        reply = reply_for(llm_request.config, llm_request.contents)
        aggregator = StreamingResponseAggregator()
        async with aclosing(self._pieces(llm_request, reply, whole=not stream)) as pieces:
            async for piece in pieces:
                if not stream:
                    yield LlmResponse.create(piece)
                    continue
                async for response in aggregator.process_response(piece):
                    yield response
        if stream and (last := aggregator.close()):
            yield last

    async def _pieces(
        self, request: LlmRequest, reply: ReplyFormat, *, whole: bool
    ) -> AsyncGenerator[types.GenerateContentResponse]:
        """The answer in the shape of a Gemini stream: text deltas, the last with finish and usage."""
        whole = whole or bool(reply.tools)
        text = sent = ""
        finish: str | None = None
        usage: Mapping[str, int] = {}
        settings = EngineSettings(self.path, self.threads, self.context_tokens)
        async with aclosing(engine(settings).chat(self._body(request, reply))) as chunks:
            async for chunk in chunks:
                if "error" in chunk:
                    raise self._refused(chunk["error"])
                usage = chunk.get("usage", usage)
                delta, ended = _delta(chunk)
                finish = ended or finish
                # One delta is held back, because the last one carries the finish and the usage.
                if delta and text != sent and not whole:
                    yield self._response(types.Part(text=text[len(sent) :]))
                    sent = text
                text += delta
        if reply.schema is not None and finish == "length":
            raise self._cut()
        part = reply.part(text)
        if not whole:
            part = types.Part(text=text[len(sent) :])
        yield self._response(part, finish, usage)

    def _response(
        self, part: types.Part, finish: str | None = None, usage: Mapping[str, int] | None = None
    ) -> types.GenerateContentResponse:
        ended = {"stop": types.FinishReason.STOP, "length": types.FinishReason.MAX_TOKENS}
        candidate = types.Candidate(
            content=types.Content(role="model", parts=[part]),
            finish_reason=ended[finish] if finish else None,
        )
        return types.GenerateContentResponse(
            candidates=[candidate],
            model_version=weights(self.path).stem,
            usage_metadata=_usage(usage) if usage else None,
        )

    def _body(self, request: LlmRequest, reply: ReplyFormat) -> dict[str, object]:
        config = request.config
        instruction = cast(object, config.system_instruction)  # pyright: ignore[reportUnknownMemberType]  # genai's type names the optional PIL
        body = {
            "messages": chat_messages(instruction, request.contents, reply.note),
            "max_tokens": config.max_output_tokens or self.max_tokens,
            "temperature": self.temperature if config.temperature is None else config.temperature,
            "seed": self.seed if config.seed is None else config.seed,
            "top_p": config.top_p,
            "top_k": config.top_k,
            "stop": config.stop_sequences,
            "grammar": None if reply.schema is None else _grammar(reply.schema),
            # Always streamed, for only a streamed request can be stopped.
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            # A cached prompt prefix changes the rounding of what follows, and so sometimes the answer.
            "cache_prompt": False,
        }
        return {key: value for key, value in body.items() if value is not None}

    def _refused(self, error: Mapping[str, Any]) -> LocalModelError:
        if error.get("type") == "exceed_context_size_error":
            return LocalModelError(
                f"LocalLlm: the request has {error['n_prompt_tokens']} tokens and context_tokens is "
                f"{self.context_tokens}; narrow the agent's context or raise context_tokens"
            )
        return LocalModelError(f"LocalLlm: the engine refused the request: {error.get('message')}")

    def _cut(self) -> LocalModelError:
        return LocalModelError(
            "LocalLlm: the JSON answer was cut off by max_tokens; raise LocalLlm(max_tokens=...) "
            "or shorten the schema"
        )


def _grammar(schema: JsonSchema) -> str:
    # Free white space between tokens is where a small model gets lost, so there is none.
    compact = {**schema, "x-guidance": {"whitespace_flexible": False}}
    return f"%llguidance {{}}\nstart: %json {json.dumps(compact)}"


def _delta(chunk: Chunk) -> tuple[str, str | None]:
    for choice in chunk.get("choices", ()):
        return choice["delta"].get("content") or "", choice.get("finish_reason")
    return "", None


def _usage(usage: Mapping[str, int]) -> types.GenerateContentResponseUsageMetadata:
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=usage["prompt_tokens"],
        candidates_token_count=usage["completion_tokens"],
        total_token_count=usage["total_tokens"],
    )
