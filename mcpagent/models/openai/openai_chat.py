"""OpenAI's Chat Completions API, which most other servers also support; always streamed.

Format: https://platform.openai.com/docs/api-reference/chat. Fields that servers add (reasoning fields, signatures on
calls) are stored and sent back to the same server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Unpack

from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.exchange import RequestVariant
from mcpagent.models.failures_and_retries import Failure
from mcpagent.models.http_model import Connection, OpenAIModel, is_openai
from mcpagent.models.local.prompted_calls import (
    is_constrained,
    prompted_way,
    takes_no_tools,
)
from mcpagent.models.local.textual_calls import read_textual_calls, unreadable_call
from mcpagent.models.openai.chat_cache_markers import with_markers
from mcpagent.models.openai.openai_chat_answers import CompletionStream, read_completion
from mcpagent.models.openai.openai_chat_history import (
    DEEPSEEK,
    Dialect,
    dialect_of,
    request_body,
)
from mcpagent.models.output_modes.structured_output import callable_in
from mcpagent.models.profiles import speaks_for_itself
from mcpagent.models.provider_tools.provider_tool_forms import searches_by_chat
from mcpagent.models.wellformed.tool_lists import wants_tools, with_placeholder
from mcpagent.models.wellformed.wellformed_chat import wellformed_chat
from mcpagent.models.written_settings import WrittenSettings, written_settings
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.values.events import Emit, Notice
from mcpagent.values.messages import Message

_MISSES_REASONING = re.compile(
    r"reasoning_content.{0,80}(missing|passed back|required)|missing.{0,20}reasoning_content",
    re.IGNORECASE,
)
"""Matches errors of DeepSeek and Moonshot, also behind gateways, about missing reasoning in the history."""


class OpenAIChatModel(OpenAIModel):
    """A model behind any server that supports Chat Completions.

    `provider` names the server in errors and histories; `hint` is the advice if it does not respond. For the connection
    options, see `Connection`; at other servers than OpenAI, the default is no key. `max_tokens_field` is the server's
    field for the maximum output: OpenAI's newer models refuse the old `max_tokens`, other servers know only that.
    `capabilities` with discovery "call_tool" keeps the whole prefix of a conversation cached; the default adds found
    tools at the end of `tools`. `calls` "prompted" describes tools in the prompt and requests calls as JSON, for models
    that cannot call. None finds out with the first request, at servers other than OpenAI's; `traits` of `Connection`
    stores the result.
    """

    path = "/chat/completions"
    protocol = "chat"
    stream_reader = CompletionStream

    @checked()
    def __init__(
        self,
        model_name: str,
        *,
        provider: str = "openai-chat",
        hint: str = "",
        max_tokens_field: str | None = None,
        calls: Literal["native", "prompted"] | None = None,
        **connection: Unpack[Connection],
    ) -> None:
        usual_key = ""
        if is_openai(connection.get("base_url")):
            usual_key = "OPENAI_API_KEY"
        super().__init__(provider, model_name, usual_key, hint=hint, **connection)
        self.calls = calls or ("native" if self.speaks_as_openai else None)
        self._reported = False
        self._dialect = dialect_of(self.origin)
        self._limit_field = max_tokens_field or (
            "max_completion_tokens" if self.speaks_as_openai else "max_tokens"
        )

    @property
    def max_tokens_field(self) -> str:
        """The server's name for the field of the maximum output."""
        return self.server().text("limit_field") or self._limit_field

    @property
    def dialect(self) -> Dialect:
        """The server's variant of Chat Completions: learned from its errors, else known by its address."""
        if self.server().text("history_form") == "deepseek":
            return DEEPSEEK
        return self._dialect

    def write(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON of a Chat Completions request, in the server's dialect."""
        return request_body(
            request,
            self.model_name,
            self.capabilities,
            dialect=self.dialect,
        )

    def wellformed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body in a form that the strictest server of this dialect accepts."""
        made = wellformed_chat(
            body, turns=self.dialect.turns, call_id=self.dialect.call_id
        )
        is_claude = self.endpoint.caching == "markers"
        if is_claude or not self.server().flag("no_tools"):
            return with_placeholder(made)
        return made

    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the whole body, with cache markers if the server needs them for caching."""
        body = super().request_body(request)
        if self.endpoint.caching != "markers" or not self.server().flag(
            "cache_markers"
        ):
            return body
        is_long = request.settings.cache_ttl == "1h"
        return with_markers(
            body,
            {"type": "ephemeral", "ttl": "1h"} if is_long else {"type": "ephemeral"},
        )

    def settings_of(self, request: ModelRequest) -> WrittenSettings:
        """Return the settings, with the maximum output under the server's field name."""
        return written_settings(
            request,
            self.origin,
            limit_field=self.max_tokens_field,
            run=self.run_for(request),
        )

    def way(self, request: ModelRequest, emit: Emit) -> RequestVariant:
        """Return the form in which to send the request: with prompted calls if configured or (with a notice) if the
        server supports no tools.
        """
        prompts = self.calls == "prompted" or (
            self.calls is None and not self.server().takes_tools
        )
        if not prompts:
            return super().way(request, emit)
        if not request.tools:
            return self.formed_way(request, emit, can_call=False)
        if self.calls is None and not self._reported:
            self._reported = True
            emit(
                Notice(
                    f"{self.name} takes no tools; they are described in the prompt from now on",
                    "warning",
                )
            )
        return prompted_way(request, emit, constrained=self.server().constrains)

    @property
    def wants_subset(self) -> bool:
        """Return whether an output schema must be in OpenAI's strict subset; False for self-hosted servers, which
        accept whole schemas.
        """
        return self.endpoint.server.structured != "alone"

    def learns(self, failure: Failure, way: RequestVariant) -> bool:
        """Learn from a failure which fields and forms the server accepts; return whether to repeat the request."""
        if _MISSES_REASONING.search(failure.message) and self.dialect is not DEEPSEEK:
            return self.learn(failure, history_form="deepseek")
        if (
            self.max_tokens_field == "max_tokens"
            and "Use 'max_completion_tokens'" in failure.message
        ):
            return self.learn(failure, limit_field="max_completion_tokens")
        if self.server().flag("no_tools") and wants_tools(failure):
            return self.learn(failure, no_tools=False)
        if way.request.tools and self.calls is None and takes_no_tools(failure.message):
            return self.learn(failure, takes_tools=False)
        if (
            is_constrained(way.request)
            and failure.status in (400, 422)
            and "response_format" in failure.message
        ):
            return self.learn(failure, constrains=False)
        return super().learns(failure, way)

    def generated_answer(self, text: str) -> dict[str, Any]:
        """Return an answer with this text, marked as a failed attempt at a call."""
        said = {"role": "assistant", "content": text}
        return {
            "choices": [{"message": said, "finish_reason": "stop"}],
            "failed_generation": text,
        }

    def is_priced(self, message: Message, body: Mapping[str, Any]) -> bool:
        """Return False for models that search the web for each answer: the usage has no count of these searches."""
        return not searches_by_chat(self.model_name) and super().is_priced(
            message, body
        )

    def _read(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        response = read_completion(answer, history=request.messages)
        was_refused = "failed_generation" in answer
        if self.is_elsewhere:  # repair it before the called tool is looked up
            of_any = was_refused or not speaks_for_itself(self.origin)
            response = read_textual_calls(
                response, callable_in(request), of_any_tool=of_any
            )
        if was_refused and not response.message.tool_calls:
            response = unreadable_call(response, request)
        return response
