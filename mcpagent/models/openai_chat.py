"""OpenAI's Chat Completions format, which most other servers speak too, always streamed.

Format: https://platform.openai.com/docs/api-reference/chat. What servers add to it (reasoning fields, signatures on
calls) is kept and goes back to the same server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

from mcpagent.errors import ModelError
from mcpagent.events import Emit, Event, Notice, TextDelta, ThinkingDelta
from mcpagent.messages import (
    Image,
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
)
from mcpagent.models.base import ModelRequest, ModelResponse, ResponseStop
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.discovery import Change, ToolPlan, annotated, as_text, plan_tools, redefinition_notes
from mcpagent.models.failures import AnswerError, ReportedError
from mcpagent.models.gemini_schema import UNSIGNED, gemini_schema
from mcpagent.models.http_model import Connection, Delta
from mcpagent.models.openai_model import OpenAIModel, is_openai
from mcpagent.models.prompted_calls import prompted, read_prompted, takes_no_tools
from mcpagent.models.server_traits import ServerTraits, TraitCache
from mcpagent.models.textual_calls import read_textual_calls
from mcpagent.models.wire import (
    counted,
    data_url,
    distinct_ids,
    ids_on_the_wire,
    json_text,
    left_out,
    legal_id,
    legal_name,
    marked_error,
    object_schema,
    read_call,
    shown_parts,
    usable_image,
    without,
)

CALL_TOOL = ToolDefinition(
    "call_tool",
    "Call a tool that was loaded in this conversation, by its name and with the arguments its definition asks for.",
    {
        "type": "object",
        "properties": {
            "tool_name": {"type": "string", "description": "The tool's exact name."},
            "arguments": {"type": "object", "description": "Its arguments, as its definition says."},
        },
        "required": ["tool_name", "arguments"],
    },
)

_LONGEST_ID = 40
_REASONING_KEYS = ("reasoning_content", "reasoning")
"""Where DeepSeek, vLLM and llama.cpp, and where OpenRouter, Ollama and newer vLLM write reasoning text."""

_CUT = ("length", "max_tokens", "model_length")
"""Finish reasons of an answer that was cut off: OpenAI's, and what other servers say instead."""

_NOT_REPLAYED = ("role", "content", "tool_calls", "refusal", "audio", "function_call")


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


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server wants otherwise: how `parameters` are written, and the turns that another provider made."""

    parameters: Callable[[Mapping[str, Any]], dict[str, Any]] = object_schema
    foreign: Callable[[dict[str, Any]], dict[str, Any]] = lambda turn: turn


def _signed(turn: dict[str, Any]) -> dict[str, Any]:
    """Of a turn's calls Gemini signs the first, and wants that one signed."""
    calls = turn.get("tool_calls") or []
    return {**turn, "tool_calls": [{**calls[0], "extra_content": UNSIGNED}, *calls[1:]]} if calls else turn


USUAL = Dialect()
GEMINI = Dialect(gemini_schema, _signed)


def request_body(
    request: ModelRequest,
    model_name: str,
    can: Capabilities = SAFE,
    *,
    provider: str,
    max_tokens_field: str = "max_completion_tokens",
    dialect: Dialect = USUAL,
) -> dict[str, Any]:
    """The body for one request. `tool_choice` "none" keeps the tools, and so the cached prefix."""
    settings = request.settings
    plan = plan_tools(request)
    proxied = can.discovery == "call_tool" and bool(plan.eager)
    tools = (*plan.eager, CALL_TOOL) if proxied else plan.all_tools
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    body: dict[str, Any] = {"model": model_name}
    if tools:
        body["tools"] = [write_tool(tool, dialect) for tool in tools]
    written = write_messages(request.messages, plan, provider=provider, proxied=proxied, dialect=dialect)
    body["messages"] = [*system, *written]
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = "none"
    if settings.max_output_tokens is not None:
        body[max_tokens_field] = settings.max_output_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    return {**body, "stream": True, "stream_options": {"include_usage": True}, **settings.extra}


def write_tool(tool: ToolDefinition, dialect: Dialect = USUAL) -> dict[str, Any]:
    parameters = dialect.parameters(tool.parameters)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def write_messages(
    messages: Sequence[Message], plan: ToolPlan, *, provider: str, proxied: bool, dialect: Dialect = USUAL
) -> list[dict[str, Any]]:
    """The history. Images of tool results follow in a user message: the format has no place for them in a result.

    With `proxied`, found tools are described in the result that found them and called through `call_tool`.
    """
    written: list[dict[str, Any]] = []
    ids = ids_on_the_wire(messages, provider, longest=_LONGEST_ID)
    notes_of = proxy_notes if proxied else redefinition_notes
    proxied_names = frozenset(plan.found) if proxied else frozenset()
    for position, message in enumerate(messages):
        if message.role == "assistant":
            said = _assistant_message(message, provider, proxied_names, ids)
            written += said if message.provider == provider else [dialect.foreign(turn) for turn in said]
            continue
        message = annotated(message, plan.changes.get(position, ()), notes_of)
        results = message.tool_results
        written += [_tool_message(result, ids) for result in results]
        pictures = [part for result in results for part in _result_images(result)]
        own = [part for part in message.parts if isinstance(part, Text | Image)]
        content = _content([*pictures, *own])
        if content:
            written.append({"role": "user", "content": _plain(content)})
    return written


def _tool_message(result: ToolResult, ids: Mapping[str, str]) -> dict[str, Any]:
    parts = shown_parts(result)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    images = sum(isinstance(part, Image) for part in parts)
    if images:
        text = f"{text}\n[{images} image(s) in the next message]".lstrip()
    call_id = ids.get(result.call_id) or legal_id(result.call_id, longest=_LONGEST_ID)
    return {"role": "tool", "tool_call_id": call_id, "content": marked_error(result, text)}


def _result_images(result: ToolResult) -> list[Text | Image]:
    images = [part for part in shown_parts(result) if isinstance(part, Image)]
    return [Text(f"From the result of {result.name}:"), *images] if images else []


def _content(parts: Sequence[Text | Image]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text.strip():
                content.append({"type": "text", "text": part.text})
        elif usable_image(part):
            content.append({"type": "image_url", "image_url": {"url": data_url(part)}})
        else:
            content.append({"type": "text", "text": left_out(part)})
    return content


def _plain(content: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """One text is sent as a string, the form every server knows."""
    only_text = len(content) == 1 and content[0]["type"] == "text"
    return str(content[0]["text"]) if only_text else content


def proxy_notes(change: Change) -> list[str]:
    """What `call_tool` can call from here on."""
    new = [f"Call it as call_tool(tool_name, arguments): {as_text(tool)}" for tool in change.new]
    return [*new, *redefinition_notes(change)]


def _assistant_message(
    message: Message, provider: str, proxied: frozenset[str], ids: Mapping[str, str]
) -> list[dict[str, Any]]:
    ours = message.provider == provider
    texts = [part for part in message.parts if isinstance(part, Text)]
    refused = "".join(part.text for part in texts if _is_refusal(part, ours))
    said = [part for part in texts if not _is_refusal(part, ours)]
    text = "".join(part.text for part in said)
    calls = [_write_call(call, ours, ids[call.id], proxied=call.name in proxied) for call in message.tool_calls]
    extra: dict[str, Any] = {}
    for part in message.parts:
        if isinstance(part, Thinking) and part.provider == provider:
            extra |= part.provider_data
        elif isinstance(part, ProviderBlock) and part.provider == provider:
            extra |= part.data
    pieces = next((part.provider_data["pieces"] for part in said if ours and "pieces" in part.provider_data), None)
    if not (text.strip() or calls or refused or pieces):
        return []
    content = pieces or (text if text.strip() or (ours and text) else None)
    written: dict[str, Any] = {"role": "assistant", "content": content, **extra}
    if refused:
        written["refusal"] = refused
    if calls:
        written["tool_calls"] = calls
    return [written]


def _is_refusal(part: Text, ours: bool) -> bool:
    return ours and part.provider_data.get("refusal") is True


def _write_call(call: ToolCall, ours: bool, call_id: str, *, proxied: bool) -> dict[str, Any]:
    """A malformed call goes back without arguments: servers parse them, and its result says what was wrong."""
    function = {"name": legal_name(call.name), "arguments": json_text(call.arguments)}
    if proxied:
        inner = {"tool_name": call.name, "arguments": call.arguments}
        function = {"name": CALL_TOOL.name, "arguments": json_text(inner)}
    written = {"id": call_id, "type": "function", "function": function}
    if not ours or call.malformed:
        return written
    sent = call.provider_data
    return {**written, **without(sent, ("function",)), "function": {**function, **sent.get("function", {})}}


def read_completion(answer: Mapping[str, Any], *, provider: str, history: Sequence[Message] = ()) -> ModelResponse:
    """A whole Chat Completions answer, its first choice. `history` is what came before: ids of calls
    stay distinct."""
    if answer.get("error"):
        raise ReportedError(answer["error"])
    choice = answer["choices"][0]
    message, reason = choice["message"], choice.get("finish_reason")
    if choice.get("error"):  # OpenRouter, where the provider behind it failed
        raise ReportedError(choice["error"])
    cut = reason in _CUT
    calls = message.get("tool_calls") or []
    parts = [*_read_extras(message, provider), *_read_content(message.get("content"), beside_calls=bool(calls))]
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        parts.append(Text(message["refusal"], provider_data={"refusal": True}))
    parts += [_read_call(call, cut_off=cut and position == len(calls) - 1) for position, call in enumerate(calls)]
    read = Message("assistant", distinct_ids(parts, history), provider=provider)
    return ModelResponse(read, read_usage(answer), _stop(read, reason, refused=bool(message.get("refusal"))))


def _read_content(content: Any, *, beside_calls: bool) -> list[Part]:
    """Text, or, as some servers write it, a list of pieces, which goes back as it is."""
    if isinstance(content, str):
        return [Text(content)] if content.strip() or (content and beside_calls) else []
    if not isinstance(content, list) or not content:
        return []
    texts = (piece for piece in content if isinstance(piece, Mapping) and piece.get("type") == "text")
    text = "".join(str(piece.get("text") or "") for piece in texts)
    return [Text(text, provider_data={"pieces": content})]


def unproxied(response: ModelResponse) -> ModelResponse:
    """The answer with calls through `call_tool` as calls of the tools meant; how they were sent stays with them."""
    parts = tuple(_unwrapped(part) if isinstance(part, ToolCall) else part for part in response.message.parts)
    return replace(response, message=replace(response.message, parts=parts))


def _unwrapped(call: ToolCall) -> ToolCall:
    if call.name != CALL_TOOL.name or call.malformed:
        return call
    name, arguments = call.arguments.get("tool_name"), call.arguments.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return replace(call, arguments={}, malformed=json_text(call.arguments))
    return replace(call, name=name, arguments=arguments)


def _stop(message: Message, reason: object, *, refused: bool) -> ResponseStop:
    if reason in _CUT:
        return "length"
    if refused or reason == "content_filter":
        return "refusal"
    return "tool_calls" if message.tool_calls else "end"


def _read_extras(message: Mapping[str, Any], provider: str) -> list[Part]:
    extra = {key: value for key, value in without(message, _NOT_REPLAYED).items() if value not in (None, "", [], {})}
    reasoning = {key: value for key, value in extra.items() if key.startswith("reasoning")}
    others = without(extra, tuple(reasoning))
    parts: list[Part] = []
    if reasoning:
        texts = [reasoning[key] for key in _REASONING_KEYS if isinstance(reasoning.get(key), str)]
        parts.append(Thinking(texts[0] if texts else "", provider, reasoning))
    if others:
        parts.append(ProviderBlock(provider, others))
    return parts


def _read_call(call: Mapping[str, Any], *, cut_off: bool) -> ToolCall:
    """A call. One of a kind that nobody asked for has no arguments to run with: it is malformed."""
    call_id, function = str(call.get("id") or ""), call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return ToolCall(call_id, str(call.get("type") or ""), {}, malformed=json_text(call))
    arguments = function.get("arguments")
    arguments = "" if arguments is None else arguments
    rest = without(call, ("id", "type"))
    return read_call(call_id, function["name"], arguments, cut_off=cut_off, provider_data=rest)


def read_usage(answer: Mapping[str, Any]) -> Usage:
    """`prompt_tokens` already hold the cached part."""
    usage = answer.get("usage")
    return Usage(
        input_tokens=counted(usage, "prompt_tokens"),
        output_tokens=counted(usage, "completion_tokens"),
        cache_read_tokens=counted(usage, "prompt_tokens_details", "cached_tokens"),
        cache_write_tokens=counted(usage, "prompt_tokens_details", "cache_write_tokens"),
        requests=1,
    )


class CompletionStream:
    """Puts a stream's chunks together to the answer it is without streaming.

    Chunks as in https://platform.openai.com/docs/api-reference/chat-streaming. Calls are told apart by `index`, and,
    since some servers send none or always 0, by a new id.
    """

    done = False  # usage comes after what looks like the end

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._others: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._call_at: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        if event.get("error"):
            raise ReportedError(event["error"])
        self._usage = event.get("usage") or self._usage
        choices = event.get("choices") or ()
        if not choices:
            return None
        choice = choices[0]
        if choice.get("error"):
            raise ReportedError(choice["error"])
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") or {}
        for call in delta.get("tool_calls") or ():
            self._add_call(call)
        for key, value in without(delta, ("role", "tool_calls")).items():
            self._add_field(key, value)
        return _shown(delta)

    def _add_field(self, key: str, value: Any) -> None:
        """Texts and lists go on where they ended; of anything else the last one counts."""
        if isinstance(value, str) and key in self._lists:
            value = [{"type": "text", "text": value}] if value else []
        if isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
        elif isinstance(value, list):
            begun = "".join(self._texts.pop(key, ()))
            known = self._lists.setdefault(key, [{"type": "text", "text": begun}] if begun else [])
            if value:  # only the first piece of a chunk can go on with the last one of the chunk before
                _add_piece(known, value[0])
                known += value[1:]
        elif isinstance(value, dict) and isinstance(self._others.get(key), dict):
            self._others[key] = _both(self._others[key], value)
        elif value is not None:
            self._others[key] = value

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        index = delta.get("index")
        call_id = delta.get("id")
        call = self._call_at.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        is_new = call is None or bool(call_id and call["id"] and call_id != call["id"])
        if index is None and (delta.get("function") or {}).get("name"):
            is_new = True
        if call is None or is_new:
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": []}}
            self._calls.append(call)
            if index is not None:
                self._call_at[index] = call
        call["id"] = call_id or call["id"]
        call |= without(delta, ("index", "id", "type", "function"))
        function = delta.get("function") or {}
        name = function.get("name") or ""
        if name != call["function"]["name"]:  # some servers repeat the name in every chunk
            call["function"]["name"] += name
        arguments = function.get("arguments")
        if arguments is not None:
            call["function"]["arguments"].append(arguments if isinstance(arguments, str) else json_text(arguments))
        call["function"] |= without(function, ("name", "arguments"))

    def answer(self) -> dict[str, Any]:
        if self._finish is None:
            raise AnswerError("the stream ended early", "cut")
        message: dict[str, Any] = {"role": "assistant", "content": None, **self._others, **self._lists}
        message |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": "".join(call["function"]["arguments"])}}
                for call in self._calls
            ]
        return {"choices": [{"message": message, "finish_reason": self._finish}], "usage": self._usage}


_GROWING = ("text", "summary", "thinking")
"""Fields of a piece that a stream sends in parts: Mistral's content, OpenRouter's `reasoning_details`."""


def _add_piece(known: list[Any], piece: Any) -> None:
    """A piece goes on with the one before it, where that has the same type and place."""
    before = known[-1] if known else None
    if not isinstance(piece, dict) or not isinstance(before, dict) or not _goes_on(before, piece):
        known.append(piece)
        return
    grown: dict[str, Any] = {}
    for key in _GROWING:
        old, new = before.get(key), piece.get(key)
        if isinstance(old, str) and isinstance(new, str):
            grown[key] = old + new
        elif isinstance(old, list) and isinstance(new, list):
            grown[key] = [*old]
            if new:
                _add_piece(grown[key], new[0])
                grown[key] += new[1:]
    told = {key: value for key, value in piece.items() if value is not None}
    known[-1] = {**before, **told, **grown}


def _goes_on(before: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    same = all(before.get(key) == piece.get(key) for key in ("type", "index"))
    ids = before.get("id"), piece.get("id")
    return same and "type" in piece and (None in ids or ids[0] == ids[1]) and any(key in piece for key in _GROWING)


def _both(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Two objects as one, the newer's values before the older's, at every depth."""
    shared = {key for key in new if isinstance(new[key], dict) and isinstance(old.get(key), dict)}
    return {**old, **new, **{key: _both(old[key], new[key]) for key in new if key in shared}}


def _shown(delta: Mapping[str, Any]) -> Delta | None:
    content = delta.get("content") or delta.get("refusal")
    if isinstance(content, list):
        content = "".join(part.text for part in _read_content(content, beside_calls=False) if isinstance(part, Text))
    if isinstance(content, str) and content:
        return TextDelta(content)
    thought = next((delta[key] for key in _REASONING_KEYS if delta.get(key)), None)
    return ThinkingDelta(thought) if isinstance(thought, str) else None
