"""OpenAI's Chat Completions format, which most other servers speak too, always streamed.

Format: https://platform.openai.com/docs/api-reference/chat. What servers add to it (reasoning fields, signatures on
calls) is kept and goes back to the same server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

from mcpagent.errors import ModelError
from mcpagent.events import Emit, Event, Notice, TextDelta
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.http_model import Connection
from mcpagent.models.openai_chat_answers import CompletionStream, read_completion, unproxied
from mcpagent.models.openai_chat_history import GEMINI, USUAL, request_body
from mcpagent.models.openai_model import OpenAIModel, is_openai
from mcpagent.models.prompted_calls import prompted, read_prompted, takes_no_tools
from mcpagent.models.server_traits import ServerTraits, TraitCache
from mcpagent.models.textual_calls import read_textual_calls


class OpenAIChatModel(OpenAIModel):
    """A model behind any server that speaks Chat Completions.

    `provider` names the server in errors and histories, `hint` says what to do where nothing answers; how it is reached
    is in `Connection`, by default without a key elsewhere than at OpenAI.
    `max_tokens_field` is what the server calls its output limit: OpenAI's newer models refuse the old `max_tokens`,
    which is what all other servers know. `capabilities` with discovery "call_tool" keeps the whole prefix of a
    conversation cached, where the default writes found tools at the end of `tools`.
    `calls` "prompted" describes tools in the prompt and has calls written as JSON, for models that cannot call; None
    finds out with the first request, at servers other than OpenAI's; `traits` remembers it beyond this object.
    """

    path = "/chat/completions"

    def __init__(
        self,
        model_name: str,
        *,
        provider: str = "openai-chat",
        hint: str = "",
        max_tokens_field: str | None = None,
        calls: Literal["native", "prompted"] | None = None,
        traits: TraitCache | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        at_openai = is_openai(connection.get("base_url"))
        super().__init__(provider, model_name, "OPENAI_API_KEY" if at_openai else "", hint=hint, **connection)
        self.reads_textual_calls = not at_openai
        self.calls = calls or ("native" if at_openai else None)
        self._cache = traits
        self._traits: ServerTraits | None = None
        self._dialect = GEMINI if provider == "gemini" else USUAL
        self.max_tokens_field = max_tokens_field or ("max_completion_tokens" if at_openai else "max_tokens")

    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        return request_body(
            request,
            self.model_name,
            self.capabilities,
            provider=self.provider,
            max_tokens_field=self.max_tokens_field,
            dialect=self._dialect,
        )

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """As everywhere; with prompted calls where the server says that its model takes no tools, which is kept."""
        if not request.tools or self.calls == "native":
            return await super().respond(request, emit)
        if self.calls is None and self._known(emit).takes_tools:
            try:
                return await super().respond(request, emit)
            except ModelError as error:
                if not takes_no_tools(str(error)):
                    raise
            self._learn(takes_tools=False)
            emit(self._no_tools_notice())
        return await self._prompted(request, emit)

    def _known(self, emit: Emit) -> ServerTraits:
        """What is known of the server; told where it comes from an earlier process."""
        if self._traits is None:
            loaded = self._cache.load(self.endpoint.base_url, self.model_name) if self._cache is not None else None
            self._traits = loaded or ServerTraits()
            if not self._traits.takes_tools and self.calls is None:
                emit(self._no_tools_notice())
        return self._traits

    def _learn(self, **found: bool) -> None:
        self._traits = replace(self._traits or ServerTraits(), **found)
        if self._cache is not None:
            self._cache.save(self.endpoint.base_url, self.model_name, self._traits)

    def _no_tools_notice(self) -> Notice:
        return Notice(f"{self.name} takes no tools; they are described in the prompt from now on", "warning")

    async def _prompted(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        def shown(event: Event) -> None:
            if not isinstance(event, TextDelta):  # raw JSON is for nobody
                emit(event)

        constrained = self._known(emit).constrains
        try:
            answer = await super().respond(prompted(request, constrained=constrained), shown)
        except ModelError as error:
            if not constrained or error.status not in (400, 422) or "response_format" not in str(error):
                raise
            self._learn(constrains=False)
            return await self._prompted(request, emit)
        response = read_prompted(answer, request)
        if response.message.text and not response.message.tool_calls:
            emit(TextDelta(response.message.text))
        return response

    def read_answer(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        response = read_completion(answer, provider=self.provider, history=request.messages)
        if self.reads_textual_calls:
            response = read_textual_calls(response, request)
        return unproxied(response) if self.capabilities.discovery == "call_tool" else response

    def stream_reader(self) -> CompletionStream:
        return CompletionStream()
