"""Write a history and its tools for Chat Completions.

Format: https://platform.openai.com/docs/api-reference/chat. A server's own additions are sent back to it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

from mcpagent.models.base import ModelRequest
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.found_tools.proxied_calls import (
    Proxy,
    proxy_of,
    through_call_tool,
)
from mcpagent.models.openai.gemini_schema import UNSIGNED, gemini_schema
from mcpagent.models.profiles import server_of
from mcpagent.models.tool_changes_in_history import (
    ToolPlan,
    annotated,
    changes_in_words,
    plan_tools,
)
from mcpagent.models.wire_values import (
    NO_ANSWER,
    NO_INPUT,
    Written,
    data_url,
    ids_on_the_wire,
    json_text,
    legal_id,
    marked_error,
    object_schema,
    plain_content,
    sendable_name,
    shown_parts,
    without,
    written_parts,
)
from mcpagent.utilities.text.for_model import set_apart
from mcpagent.values.messages import (
    FILE_PARTS,
    Audio,
    Content,
    Document,
    FileId,
    FilePart,
    Image,
    ImageUrl,
    Message,
    Origin,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

_LONGEST_ID = 40
_NOTHING: Mapping[str, Any] = {}


_usual_id = partial(legal_id, longest=_LONGEST_ID)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules of a server that go beyond the format.

    `parameters` writes schemas, `foreign` the turns of other models. `turns` enforces the order and content of turns,
    and `call_id` replaces IDs that the server would refuse.
    """

    parameters: Callable[[Mapping[str, Any]], dict[str, Any]] = object_schema
    foreign: Callable[[dict[str, Any]], dict[str, Any]] = lambda turn: turn
    turns: Callable[[list[Written]], list[Written]] = lambda turns: turns
    call_id: Callable[[str], str] = _usual_id


def _signed(turn: dict[str, Any]) -> dict[str, Any]:
    """Return the turn with a placeholder signature on its first call, as Gemini requires."""
    calls = turn.get("tool_calls") or []
    if calls:
        return {
            **turn,
            "tool_calls": [{**calls[0], "extra_content": UNSIGNED}, *calls[1:]],
        }
    return turn


def alternating(turns: list[Written]) -> list[Written]:
    """Insert a user's turn at the beginning and between two answers, and merge adjacent turns of the user.

    Gemini requires a user's turn before calls, and the chat templates of Mistral's, Gemma's and other models require
    alternation.
    """
    made: list[Written] = []
    for turn in turns:
        before = "assistant"
        if made:
            before = made[-1]["role"]
        if turn["role"] == before == "assistant":
            made.append({"role": "user", "content": NO_INPUT})
        elif turn["role"] == before == "user":
            turn = {**turn, "content": _joined(made.pop()["content"], turn["content"])}
        made.append(turn)
    return made


def _joined(*contents: str | list[Written]) -> str | list[Written]:
    """Return contents joined: a single text if there are no images, because every server supports that."""
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))
    as_lists = (
        [{"type": "text", "text": one}] if isinstance(one, str) else one
        for one in contents
    )
    return [piece for pieces in as_lists for piece in pieces]


def _answered(turns: list[Written]) -> list[Written]:
    """Insert an answer between results and a user's turn, because Mistral refuses the role "user" after the role
    "tool".

    This happens with images of results, and with results after which no answer was requested.
    """
    made: list[Written] = []
    for turn in alternating(turns):
        if turn["role"] == "user" and made and made[-1]["role"] == "tool":
            made.append({"role": "assistant", "content": NO_ANSWER})
        made.append(turn)
    return made


def _reasoned(turns: list[Written]) -> list[Written]:
    """Add an empty reasoning field to answers without one, against "Missing `reasoning_content` field in the assistant
    message".
    """
    missing = {"reasoning_content": ""}
    return [
        {**missing, **turn} if turn["role"] == "assistant" else turn
        for turn in alternating(turns)
    ]


_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def nine_characters(call_id: str) -> str:
    """Return the ID in the form that Mistral's API and chat templates require: nine letters and digits."""
    if _NINE.fullmatch(call_id):
        return call_id
    number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")).digest())
    return "".join(_DIGITS[number // 62**place % 62] for place in range(9))


OPENAI = Dialect()
USUAL = Dialect(turns=alternating, call_id=nine_characters)
MISTRAL = replace(USUAL, turns=_answered)
DEEPSEEK = replace(USUAL, turns=_reasoned)
GEMINI = Dialect(gemini_schema, _signed, alternating)

_DIALECTS = {
    "openai": OPENAI,
    "gemini": GEMINI,
    "mistral": MISTRAL,
    "deepseek": DEEPSEEK,
}
_MISTRALS = re.compile(
    r"(?:mi[sx]tral|ministral|magistral|devstral|codestral|pixtral)", re.IGNORECASE
)
"""Matches names of Mistral's models and of models derived from them, which have the same chat template."""


def dialect_of(to: Origin) -> Dialect:
    """Return the dialect of the server; at an unknown server, that of the model, whose chat template has rules."""
    named = _DIALECTS.get(server_of(to).dialect)
    return named or (MISTRAL if _is_mistral(to.model) else USUAL)


def _is_mistral(model_name: str) -> bool:
    """Return whether Mistral made the model or its base model."""
    return bool(_MISTRALS.search(model_name))


def request_body(
    request: ModelRequest,
    model_name: str,
    can: Capabilities = SAFE,
    *,
    dialect: Dialect = OPENAI,
) -> dict[str, Any]:
    """Return the body of a request without its settings.

    With `tool_choice` "none" it still has the tools, so the cached prefix stays.
    """
    plan = plan_tools(request)
    proxy = proxy_of(plan, can)
    if request.system.strip():
        system = [{"role": "system", "content": request.system}]
    else:
        system = []
    body: dict[str, Any] = {"model": model_name}
    if tools := proxy.native(plan):
        body["tools"] = [write_tool(tool, dialect) for tool in tools]
    written = write_messages(request.messages, plan, proxy, dialect=dialect)
    body["messages"] = [*system, *written]
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = "none"
    return {**body, "stream_options": {"include_usage": True}}


def write_tool(tool: ToolDefinition, dialect: Dialect = OPENAI) -> dict[str, Any]:
    """Return a tool definition with its schema in the server's dialect."""
    parameters = dialect.parameters(tool.parameters)
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


def write_messages(
    messages: Sequence[Message],
    plan: ToolPlan,
    proxy: Proxy,
    *,
    dialect: Dialect = OPENAI,
) -> list[dict[str, Any]]:
    """Return the messages. Images of tool results follow in a user message, because results cannot contain them.

    Tools of `proxy` are described in the result that found them, and called through `call_tool`.
    """
    written: list[dict[str, Any]] = []
    ids = ids_on_the_wire(messages, dialect.call_id)
    changes = changes_in_words(plan, messages)
    for position, message in enumerate(messages):
        if message.role == "assistant":
            said = _assistant_message(message, proxy.names, ids)
            written.append(
                said if message.origin is not None else dialect.foreign(said)
            )
            continue
        results: list[Content] = []
        own: list[Content] = []
        for part in annotated(message, changes.get(position, ()), proxy.notes).parts:
            if isinstance(part, ToolResult):
                shown = shown_parts(part)
                files = [one for one in shown if isinstance(one, FILE_PARTS)]
                written.append(_tool_message(part, shown, files, ids))
                if files:
                    results += [
                        Text(f"From the result of {sendable_name(part.name)}:"),
                        *files,
                    ]
            elif isinstance(part, Text | FilePart):
                own.append(part)
        if content := written_parts([*results, *own], "text", _file):
            written.append({"role": "user", "content": plain_content(content)})
    return written


def _tool_message(
    result: ToolResult,
    shown: Sequence[Content],
    files: Sequence[FilePart],
    ids: Mapping[str, str],
) -> dict[str, Any]:
    text = "\n".join([part.text for part in shown if isinstance(part, Text)])
    if files:
        what = "file"
        if all(isinstance(part, Image | ImageUrl) for part in files):
            what = "image"
        text = (
            f"{set_apart(text)}\n[{len(files)} {what}(s) in the next message]".lstrip()
        )
    return {
        "role": "tool",
        "tool_call_id": ids[result.call_id],
        "content": marked_error(result, text),
    }


_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""The two audio formats that OpenAI documents."""


def _file(part: FilePart) -> dict[str, Any] | None:
    """Return a file as a content part of Chat Completions; None if the API has no form for it."""
    match part:
        case Image():
            return {"type": "image_url", "image_url": {"url": data_url(part)}}
        case ImageUrl():
            return {"type": "image_url", "image_url": {"url": part.url}}
        case Audio() if part.media_type in _AUDIO_FORMATS:
            return {
                "type": "input_audio",
                "input_audio": {
                    "data": part.data,
                    "format": _AUDIO_FORMATS[part.media_type],
                },
            }
        case Document(media_type="application/pdf"):
            return {
                "type": "file",
                "file": {
                    "filename": part.name or "document.pdf",
                    "file_data": data_url(part),
                },
            }
        case FileId():
            return {"type": "file", "file": {"file_id": part.id}}
        case _:
            return None


def _assistant_message(
    message: Message, proxied: frozenset[str], ids: Mapping[str, str]
) -> dict[str, Any]:
    ours = message.origin is not None
    content, marked = _said(
        [part for part in message.parts if isinstance(part, Text)], ours
    )
    calls = [
        _write_call(part, ids[part.id], proxied=part.name in proxied)
        for part in message.parts
        if isinstance(part, ToolCall)
    ]
    written: dict[str, Any] = {"role": "assistant", "content": content}
    for part in message.parts:
        if isinstance(part, Thinking):
            written |= part.provider_data
        elif isinstance(part, ProviderBlock):
            written |= part.data
    written |= marked
    if calls:
        written["tool_calls"] = calls
    return written


def _said(texts: Sequence[Text], ours: bool) -> tuple[Any, dict[str, Any]]:
    """Return the content of an answer, as a string or as the server's blocks, and the fields beside it (refusal,
    audio).

    `ours`: the same server wrote the answer.
    """
    text = refused = ""
    sounds: list[Any] = []
    pieces: list[Any] = []
    for part in texts:
        sent = part.provider_data
        if "audio" in sent:
            sounds.append(sent["audio"])
        if sent.get("refusal") is True:
            refused += part.text
        elif "audio" not in sent:
            text += part.text
            if "pieces" in sent:
                pieces += [sent["pieces"]]
    marked = {"refusal": refused, "audio": next(iter(sounds), None)}
    content = next(iter(pieces), None) or (
        text if text.strip() or (ours and text) else None
    )
    return content, {key: value for key, value in marked.items() if value}


def _write_call(call: ToolCall, call_id: str, *, proxied: bool) -> dict[str, Any]:
    sent = call.provider_data
    as_sent = sent.get("function", _NOTHING)
    name, arguments = call.name, call.arguments
    if proxied:
        name, arguments = through_call_tool(call, as_sent.get("arguments"))
    function = {"name": name, "arguments": json_text(arguments), **as_sent}
    return {
        "id": call_id,
        "type": "function",
        "function": function,
        **without(sent, ("function",)),
    }
