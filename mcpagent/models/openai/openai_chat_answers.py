"""Read answers of Chat Completions, whole and streamed; extra fields of a server are preserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcpagent.models.base import ModelResponse
from mcpagent.models.failures_and_retries import AnswerError, ReportedError
from mcpagent.models.provider_tools.citations import citations_of
from mcpagent.models.stream_rollback import CallDelta, Delta
from mcpagent.models.wire_values import (
    distinct_ids,
    json_text,
    openai_usage,
    read_call,
    stop_of,
    usage_count,
    without,
)
from mcpagent.values.events import TextDelta, ThinkingDelta
from mcpagent.values.messages import (
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
)

_REASONING_KEYS = ("reasoning_content", "reasoning")
"""Fields with reasoning text, the first of DeepSeek, vLLM and llama.cpp, the second of OpenRouter, Ollama and newer
vLLM.
"""

_CUT = ("length", "max_tokens", "model_length")
"""Finish reasons of a truncated answer, at OpenAI and at other servers."""

_GIVEN_UP = ("insufficient_system_resource", "error", "cancelled")
"""Finish reasons of an answer that the provider aborted: DeepSeek, OpenRouter and gateways."""

_NOT_REPLAYED = (
    *("role", "content", "tool_calls", "refusal", "audio", "function_call"),
    *("executed_tools", "channel"),  # fields of Groq, which it refuses in requests
)


def read_completion(
    answer: Mapping[str, Any], *, history: Sequence[Message] = ()
) -> ModelResponse:
    """Convert the first choice of a whole Chat Completions answer to a response.

    `history` has the earlier messages, so that the IDs of calls stay distinct.
    """
    if answer.get("error"):
        raise ReportedError(answer["error"])
    choice = answer["choices"][0]
    message, reason = choice["message"], choice.get("finish_reason")
    if choice.get("error"):  # at OpenRouter, if the provider behind it failed
        raise ReportedError(choice["error"])
    _check(reason)
    cut = reason in _CUT
    calls = _calls_of(message)
    words = _read_content(message.get("content"), beside_calls=bool(calls))
    if words and (named := citations_of(message.get("annotations"))):
        words = [replace(part, citations=named) for part in words]
    parts: list[Part] = [*_read_extras(message), *words]
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        parts.append(Text(message["refusal"], provider_data={"refusal": True}))
    parts += _read_sound(message.get("audio"))
    parts += [
        _read_call(call, cut_off=cut and position == len(calls) - 1)
        for position, call in enumerate(calls)
    ]
    read = Message("assistant", distinct_ids(parts, history))
    usage = openai_usage(answer.get("usage"), "prompt_tokens", "completion_tokens")
    searches = usage_count(
        answer.get("usage"), "server_tool_use", "web_search_requests"
    )  # OpenRouter's field
    usage = replace(usage, web_searches=searches)
    refused = bool(message.get("refusal")) or reason == "content_filter"
    return ModelResponse(read, usage, stop_of(read, cut=cut, refused=refused))


def _check(finish_reason: object) -> None:
    """Raise `ReportedError` if the provider aborted the answer."""
    if finish_reason in _GIVEN_UP:
        raise ReportedError(
            {
                "type": "overloaded_error",
                "message": f"it gave the answer up: {finish_reason}",
            }
        )


def _calls_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls in a message, including one in the old form (`function_call`)."""
    calls, former = message.get("tool_calls") or [], message.get("function_call")
    return list(calls) or (
        [{"function": former}]
        if isinstance(former, Mapping) and former.get("name")
        else []
    )


def _read_sound(audio: Any) -> list[Part]:
    """Return the transcript of an audio answer; the ID of the audio is stored, to be sent back."""
    if not isinstance(audio, Mapping) or not isinstance(audio.get("id"), str):
        return []
    return [
        Text(
            str(audio.get("transcript") or ""),
            provider_data={"audio": {"id": audio["id"]}},
        )
    ]


def _read_content(content: Any, *, beside_calls: bool) -> list[Text]:
    """Return the text of a message, or its list of blocks as some servers write it, which is sent back unchanged."""
    if isinstance(content, str):
        if content.strip() or (content and beside_calls):
            return [Text(content)]
        return []
    if not isinstance(content, list) or not content:
        return []
    texts = (
        piece
        for piece in content
        if isinstance(piece, Mapping) and piece.get("type") == "text"
    )
    text = "".join(str(piece.get("text") or "") for piece in texts)
    return [Text(text, provider_data={"pieces": content})]


def _read_extras(message: Mapping[str, Any]) -> list[Part]:
    extra = {
        key: value
        for key, value in without(message, _NOT_REPLAYED).items()
        if value not in (None, "", [], {})
    }
    reasoning = {
        key: value for key, value in extra.items() if key.startswith("reasoning")
    }
    others = without(extra, tuple(reasoning))
    parts: list[Part] = []
    if reasoning:
        texts = [
            reasoning[key]
            for key in _REASONING_KEYS
            if isinstance(reasoning.get(key), str)
        ]
        parts.append(Thinking(texts[0] if texts else "", reasoning))
    if others:
        parts.append(ProviderBlock(others))
    return parts


def _read_call(call: Mapping[str, Any], *, cut_off: bool) -> ToolCall:
    """Return a call. A call of an unknown kind has no usable arguments, so it is malformed."""
    call_id, function = str(call.get("id") or ""), call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return ToolCall(
            call_id, str(call.get("type") or ""), {}, malformed=json_text(call)
        )
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    rest = without(call, ("id", "type"))
    return read_call(
        call_id, function["name"], arguments, cut_off=cut_off, provider_data=rest
    )


class CompletionStream:
    """Assembles a stream's chunks into the same answer as without streaming.

    Chunks as in https://platform.openai.com/docs/api-reference/chat-streaming. Calls are distinguished by `index`, and
    by a new ID, because some servers send no index or always 0.
    """

    done = False  # the usage can come after the last content

    def __init__(self) -> None:
        self.was_marked = False
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._others: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._call_at: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, event: Mapping[str, Any]) -> Delta | CallDelta | None:
        """Process one event; return the delta to emit, or None."""
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
        _check(self._finish)
        delta = choice.get("delta") or {}
        for call in delta.get("tool_calls") or ():
            self._add_call(call)
        former = delta.get("function_call") or {}
        if former.get("name") or (former.get("arguments") and self._calls):
            self._add_call({"index": 0, "function": former})
        for key, value in without(
            delta, ("role", "tool_calls", "function_call")
        ).items():
            self._add_field(key, value)
        return _shown(delta) or self._last_call(delta)

    def _last_call(self, delta: Mapping[str, Any]) -> CallDelta | None:
        """Return the piece of a call in this chunk, if it has exactly one; else None."""
        calls: Sequence[Any] = delta.get("tool_calls") or ()
        piece = None
        if len(calls) == 1:
            piece = (calls[0].get("function") or {}).get("arguments")
        if not isinstance(piece, str) or not piece:
            return None
        call = self._call_at.get(calls[0].get("index"), self._calls[-1])
        return CallDelta(str(call["function"]["name"]), piece)

    def _add_field(self, key: str, value: Any) -> None:
        """Add a value to a field: texts and lists are appended; for any other type, the last value counts."""
        if isinstance(value, str) and key in self._lists:
            if value:
                value = [{"type": "text", "text": value}]
            else:
                value = []
        if isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
        elif isinstance(value, list):
            begun = "".join(self._texts.pop(key, ()))
            known = self._lists.setdefault(
                key, [{"type": "text", "text": begun}] if begun else []
            )
            if value:  # only the first block of a chunk can continue the last block of the previous one
                _add_piece(known, value[0])
                known += value[1:]
        elif isinstance(value, dict) and isinstance(self._others.get(key), dict):
            self._others[key] = (_sound if key == "audio" else _both)(
                self._others[key], value
            )
        elif value is not None:
            self._others[key] = value

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        index = delta.get("index")
        call_id = delta.get("id")
        if index is not None:
            call = self._call_at.get(index)
        elif self._calls:
            call = self._calls[-1]
        else:
            call = None
        is_new = call is None or bool(call_id and call["id"] and call_id != call["id"])
        if index is None and (delta.get("function") or {}).get("name"):
            is_new = True
        if call is None or is_new:
            call = {
                "id": "",
                "type": "function",
                "function": {"name": "", "arguments": []},
            }
            self._calls.append(call)
            if index is not None:
                self._call_at[index] = call
        call["id"] = call_id or call["id"]
        call |= without(delta, ("index", "id", "type", "function"))
        function = delta.get("function") or {}
        name = function.get("name") or ""
        if (
            name != call["function"]["name"]
        ):  # some servers repeat the name in every chunk
            call["function"]["name"] += name
        arguments = function.get("arguments")
        if arguments is not None:
            call["function"]["arguments"].append(
                arguments if isinstance(arguments, str) else json_text(arguments)
            )
        call["function"] |= without(function, ("name", "arguments"))

    def answer(self) -> dict[str, Any]:
        """Return the same answer as without streaming. Raises `AnswerError` if the stream ended early.

        Some servers send no finish reason: then only `[DONE]` shows that the answer is complete.
        """
        if self._finish is None and not (
            self.was_marked and (self._texts or self._lists or self._calls)
        ):
            raise AnswerError("the stream ended early", "cut")
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None,
            **self._others,
            **self._lists,
        }
        message |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [
                {
                    **call,
                    "function": {
                        **call["function"],
                        "arguments": "".join(call["function"]["arguments"]),
                    },
                }
                for call in self._calls
            ]
        return {
            "choices": [{"message": message, "finish_reason": self._finish}],
            "usage": self._usage,
        }


_GROWING = ("text", "summary", "thinking")
"""Fields whose text a stream sends in several deltas: Mistral's content, OpenRouter's `reasoning_details`."""


def _add_piece(known: list[Any], piece: Any) -> None:
    """Add a block to the list, or append it to the previous block if type and index are the same."""
    before = None
    if known:
        before = known[-1]
    if (
        not isinstance(piece, dict)
        or not isinstance(before, dict)
        or not _goes_on(before, piece)
    ):
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
    return (
        same
        and "type" in piece
        and (None in ids or ids[0] == ids[1])
        and any(key in piece for key in _GROWING)
    )


def _both(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Merge two objects at every depth; values of the newer one win."""
    shared = {
        key
        for key in new
        if isinstance(new[key], dict) and isinstance(old.get(key), dict)
    }
    return {
        **old,
        **new,
        **{key: _both(old[key], new[key]) for key in new if key in shared},
    }


def _sound(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the audio of a stream so far: transcripts are joined; for other fields, the last value counts."""
    spoken = "".join(
        part["transcript"]
        for part in (old, new)
        if isinstance(part.get("transcript"), str)
    )
    return {**old, **new, "transcript": spoken}


def _shown(delta: Mapping[str, Any]) -> Delta | None:
    content = delta.get("content") or delta.get("refusal")
    if isinstance(content, list):
        content = "".join(
            part.text
            for part in _read_content(content, beside_calls=False)
            if isinstance(part, Text)
        )
    if isinstance(content, str) and content:
        return TextDelta(content)
    thought = next((delta[key] for key in _REASONING_KEYS if delta.get(key)), None)
    if isinstance(thought, str):
        return ThinkingDelta(thought)
    return None
