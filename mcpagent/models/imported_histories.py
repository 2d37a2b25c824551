"""Convert histories in the formats of OpenAI's and Anthropic's APIs.

Each message is read by its own shape, so a list may mix formats: Chat Completions
(https://platform.openai.com/docs/api-reference/chat), items of the Responses API
(https://platform.openai.com/docs/api-reference/responses), Anthropic Messages
(https://platform.claude.com/docs/en/api/messages), and mcpagent's own, as values or from `dump_messages`. Objects that
an SDK returned are accepted, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

from mcpagent.errors import InputError
from mcpagent.history.conversation import closed, usable_history
from mcpagent.history.intake.file_descriptions import bracketed, file_kind
from mcpagent.models.anthropic.messages_model import read_block
from mcpagent.models.openai.openai_responses import read_item
from mcpagent.models.sendable_history import SERVER_TOOLS
from mcpagent.models.wire_values import read_call, without
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.text.for_model import fenced
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import (
    Audio,
    Compacted,
    Container,
    Content,
    Document,
    FileId,
    Image,
    ImageUrl,
    Message,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    load_message,
)

_ANTHROPIC_SIDE, _OPENAI_SIDE = SERVER_TOOLS["messages"], SERVER_TOOLS["responses"]
_ANTHROPIC, _OPENAI = Origin("anthropic", "messages"), Origin("openai", "responses")
_ONLY_ANTHROPIC = {"tool_use", "thinking", "redacted_thinking"} | _ANTHROPIC_SIDE


NOT_TRUSTED = "This call was open in a history that is not trusted, so it was not run."


@dataclass(frozen=True, slots=True)
class History:
    """A converted list of messages: `system` is the text of its system messages, and `messages` has all others in
    order.
    """

    system: str
    messages: list[Message]


def history_of(
    messages: Sequence[Message | Mapping[str, Any]], trusted: bool | None = None
) -> History:
    """Return messages in any of the formats as a history that can continue. Raises `InputError`.

    A history that is not `trusted` comes from a third party: see `only_said`. None: trusted if it consists of
    mcpagent's own messages.
    """
    expect(
        "messages",
        messages,
        Iterable,
        "a list of messages",
        holds=lambda given: not isinstance(given, str | bytes | Mapping),
        error=InputError,
    )
    given = list(messages)
    known = [message for message in given if isinstance(message, Message)]
    if len(known) == len(given):
        history = History("", known)
    else:
        history = read_history(given)
    history = replace(history, messages=usable_history(history.messages))
    if trusted is None:
        trusted = all(
            isinstance(one, Message) or (isinstance(one, Mapping) and "parts" in one)
            for one in given
        )
    if trusted:
        return history
    return only_said(history)


def only_said(history: History) -> History:
    """Return only the messages of users and models, for an untrusted history.

    System messages, compactions and containers of programs are removed; calls without a result get an error result.
    """
    said: list[Message] = []
    for message in history.messages:
        parts = tuple(
            part
            for part in message.parts
            if not isinstance(part, Compacted | Container)
        )
        if parts:
            said.append(replace(message, parts=parts))
    return History("", closed(said, NOT_TRUSTED))


def read_history(messages: Sequence[Any]) -> History:
    """Convert a history in any of the formats, message by message.

    If arguments are not a JSON object, the call is malformed, as in an answer. Results are matched by ID with the calls
    that wait for one. Reasoning stays if its provider can use it again. Raises `InputError` with the position of
    unreadable content, such as `messages[3].content[1]`.
    """
    given: object = messages
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InputError(f"messages: expected a list of messages, got {_kind(given)}")
    reader = _HistoryReader()
    for place, message in enumerate(messages):
        reader.read(_as_data(message), place)
    if not reader.messages and not reader.system:
        raise InputError(
            "messages: the history is empty; it must end with a user's message"
        )
    return History("\n\n".join(reader.system), reader.messages)


class _HistoryReader:
    """Converts one message after the other.

    `_open` are the calls that wait for a result, by their original IDs; `_ids` are the IDs of all calls. `_in_items`:
    the last message is an answer in OpenAI's items, which may continue. `_ids_are_lost`: reasoning is missing on which
    the answer's other items depend.
    """

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self._open: list[tuple[str, ToolCall]] = []
        self._ids: set[str] = set()
        self._in_items = False
        self._ids_are_lost = False

    def read(self, message: Any, place: int) -> None:
        at = f"messages[{place}]"
        match message:
            case Message() | {"parts": _}:
                self._add_ours(load_message(message, place))
            case {"role": str(role)} if message.get("type") in (None, "message"):
                self._read_said(role, message, at)
            case {"type": str(kind)}:
                self._read_item(kind, message, at)
            case _:
                raise InputError(
                    f"{at}: expected an object with role and content, got {_kind(message)}"
                )

    def _read_said(self, role: str, message: Mapping[str, Any], at: str) -> None:
        match role:
            case "system" | "developer":
                words = _words(
                    _listed(message.get("content"), f"{at}.content"), f"{at}.content"
                )
                self.system += [text.text for text in words if text.text.strip()]
            case "user":
                self._add_user(message.get("content"), f"{at}.content")
            case "assistant":
                self._add_assistant(message, at)
            case "tool":
                self._add_results(
                    [
                        self._result(
                            message.get("tool_call_id"),
                            message.get("content"),
                            at,
                            "content",
                        )
                    ]
                )
            case _:
                known = "system, developer, user, assistant or tool"
                raise InputError(
                    f'{at}.role: expected {known}, got "{safe_line(role, 60)}"'
                )

    def _read_item(self, kind: str, item: Mapping[str, Any], at: str) -> None:
        match item:
            case {"type": "function_call_output"}:
                self._add_results(
                    [
                        self._result(
                            item.get("call_id"), item.get("output"), at, "output"
                        )
                    ]
                )
            case {"type": "reasoning"} if not item.get("encrypted_content"):
                self._ids_are_lost = (
                    True  # OpenAI accepts neither it nor the IDs of the items after it
                )
            case {"type": "function_call", "name": str(), "call_id": str()}:
                _check_arguments(item.get("arguments"), f"{at}.arguments")
                self._add_item(item)
            case _ if kind == "reasoning" or kind in _OPENAI_SIDE:
                self._add_item(item)
            case _:
                raise InputError(
                    f'{at}: an item of type "{safe_line(kind, 60)}", which is not known or not whole'
                )

    def _add_ours(self, message: Message) -> None:
        self._in_items = self._ids_are_lost = False
        self.messages.append(message)
        if message.role == "tool":
            answered = {result.call_id for result in message.tool_results}
            self._open = [
                (given, call) for given, call in self._open if call.id not in answered
            ]
        else:
            self._open = [(call.id, call) for call in message.tool_calls]
            self._ids.update(call.id for call in message.tool_calls)

    def _add_user(self, content: Any, at: str) -> None:
        """Add a user's turn. Tool results in it, as in Anthropic's format, come before its text."""
        said: list[Part] = []
        results: list[ToolResult] = []
        for place, block in enumerate(_listed(content, at)):
            here = f"{at}[{place}]"
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                result = self._result(
                    block.get("tool_use_id"), block.get("content"), here, "content"
                )
                results.append(
                    replace(result, error="failed")
                    if block.get("is_error") is True
                    else result
                )
            else:
                said.append(_shown(block, here))
        self._add_results(results)
        if said or not results:
            self._add_ours(Message("user", tuple(said)))

    def _result(self, call_id: object, content: Any, at: str, field: str) -> ToolResult:
        """Return the result for a waiting call. If the content is missing, the result is empty."""
        waiting = next((pair for pair in self._open if pair[0] == call_id), None)
        if waiting is None:
            shown = "a call without an id"
            if isinstance(call_id, str):
                shown = f'call "{safe_line(call_id, 60)}"'
            raise InputError(
                f"{at}: a result of {shown}, which does not wait for one; put it directly after its call"
            )
        self._open.remove(waiting)
        pieces = enumerate(_listed([] if content is None else content, f"{at}.{field}"))
        shown_pieces = tuple(
            _shown(piece, f"{at}.{field}[{place}]") for place, piece in pieces
        )
        return ToolResult(waiting[1].id, waiting[1].name, shown_pieces)

    def _add_results(self, results: Sequence[ToolResult]) -> None:
        self._in_items = self._ids_are_lost = False
        if results and self.messages[-1].role == "tool":
            last = self.messages[-1]
            self.messages[-1] = replace(last, parts=(*last.parts, *results))
        elif results:
            self.messages.append(Message("tool", tuple(results)))

    def _add_assistant(self, message: Mapping[str, Any], at: str) -> None:
        content = message.get("content")
        blocks = _listed([] if content is None else content, f"{at}.content")
        kinds = _kinds(blocks)
        if (
            message.get("type") == "message"
            and kinds
            and kinds <= {"output_text", "refusal"}
        ):
            _words(blocks, f"{at}.content")
            self._add_item({**message, "content": blocks})
            return
        is_anthropics = bool(kinds & _ONLY_ANTHROPIC) or "stop_reason" in message
        read = [
            _answer_block(block, f"{at}.content[{place}]", is_anthropics)
            for place, block in enumerate(blocks)
        ]
        parts = [part for part in read if part is not None]
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            parts.append(Text(refusal))
        self._add_answer(
            [*parts, *_chat_calls(message, at)],
            _ANTHROPIC if is_anthropics else None,
            goes_on=self._in_items,
        )

    def _add_item(self, item: Mapping[str, Any]) -> None:
        """Add an item of OpenAI's format. Adjacent items belong to one answer, so a call does not begin a new
        message.
        """
        lost = self._ids_are_lost
        self._add_answer(
            read_item(without(item, ("id",)) if lost else item), _OPENAI, goes_on=True
        )
        self._in_items, self._ids_are_lost = True, lost

    def _add_answer(
        self, parts: Sequence[Part], origin: Origin | None, *, goes_on: bool
    ) -> None:
        opened = [
            (part.id, self._apart(part)) for part in parts if isinstance(part, ToolCall)
        ]
        calls = iter(opened)
        made = tuple(
            next(calls)[1] if isinstance(part, ToolCall) else part for part in parts
        )
        last = None
        if self.messages:
            last = self.messages[-1]
        if goes_on and last is not None and last.role == "assistant":
            self.messages[-1] = replace(
                last, parts=(*last.parts, *made), origin=origin or last.origin
            )
            self._open += opened
        elif made:
            self._add_ours(Message("assistant", made, origin))
            self._open = opened

    def _apart(self, call: ToolCall) -> ToolCall:
        """Return the call with an ID that no other call has: some servers number the calls of every answer in the same
        way.
        """
        ids = chain(
            [call.id], (f"call_{len(self.messages)}_{number}" for number in count())
        )
        free = next(call_id for call_id in ids if call_id and call_id not in self._ids)
        self._ids.add(free)
        if free == call.id:
            return call
        return replace(call, id=free)


def _chat_calls(message: Mapping[str, Any], at: str) -> list[ToolCall]:
    """Return the calls in an answer of Chat Completions."""
    for former in ("function_call", "audio"):
        if message.get(former):
            raise InputError(
                f"{at}.{former}: cannot be read; write calls as tool_calls, and spoken words as content"
            )
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise InputError(
            f"{at}.tool_calls: expected a list of calls, got {type(calls).__name__}"
        )
    read: list[ToolCall] = []
    for place, call in enumerate(map(_as_data, calls)):
        match call:
            case {"function": {"name": str(name), **function}} if call.get("type") in (
                None,
                "function",
            ):
                arguments = function.get("arguments")
                _check_arguments(
                    arguments, f"{at}.tool_calls[{place}].function.arguments"
                )
                call_id = str(call.get("id") or "")
                read.append(
                    read_call(
                        call_id,
                        name,
                        "" if arguments is None else arguments,
                        cut_off=False,
                    )
                )
            case _:
                raise InputError(
                    f"{at}.tool_calls[{place}]: expected a function's call, with name and arguments"
                )
    return read


def _answer_block(block: Any, at: str, is_anthropics: bool) -> Part | None:
    """Return the part for a block of an answer; None if it is empty. Anthropic's blocks stay unchanged, so that they
    can be sent back.
    """
    match block:
        case {"type": "tool_use", "name": str(), "id": str()}:
            _check_arguments(block.get("input"), f"{at}.input")
        case {"type": "thinking", "thinking": str(thought)} if not block.get(
            "signature"
        ):
            return Thinking(thought)  # providers refuse reasoning without a signature
        case {"type": "thinking", "thinking": str()} | {
            "type": "redacted_thinking",
            "data": str(),
        }:
            pass
        case {"type": "text", "text": str()} if is_anthropics:
            pass
        case {"type": str(kind)} if kind in _ANTHROPIC_SIDE:
            pass
        case _:
            [word] = _words([block], at, numbered=False)
            if word.text:
                return word
            return None
    return read_block(without(block, ("cache_control",)))


_ARTICLES = {
    "image": "an image",
    "document": "a document",
    "audio": "a recording",
    "file": "a file",
}


def _words(blocks: Sequence[Any], at: str, *, numbered: bool = True) -> list[Text]:
    """Return the text blocks. Raises `InputError` for other blocks."""
    words: list[Text] = []
    for place, block in enumerate(blocks):
        if numbered:
            here = f"{at}[{place}]"
        else:
            here = at
        shown = _shown(block, here)
        if not isinstance(shown, Text):
            raise InputError(
                f"{here}: {_ARTICLES[file_kind(shown)]}; only a user's message or a result can hold one"
            )
        words.append(shown)
    return words


def _shown(block: Any, at: str) -> Content:
    """Return a text or a file in the format of OpenAI or Anthropic as a part."""
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)} | {
            "type": "refusal",
            "refusal": str(text),
        }:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} | {
            "type": "input_image",
            "image_url": str(url),
        }:
            return _image(url, at)
        case {"type": "input_image", "file_id": str(file_id)}:
            return FileId(file_id, "openai", "image/*")
        case {
            "type": "input_audio",
            "input_audio": {"data": str(data), "format": str(form)},
        }:
            return Audio("audio/mpeg" if form == "mp3" else f"audio/{form}", data)
        case {"type": "input_file"}:
            return _openai_file(block, at)
        case {"type": "file", "file": dict() as file}:
            return _openai_file(file, at)
        case {"type": "image" | "document" as kind, "source": dict() as source}:
            return _anthropic_file(kind, source, _name(block.get("title")), at)
        case {"type": str(kind)}:
            raise InputError(
                f'{at}: content of type "{safe_line(kind, 60)}", which is not known here or not whole'
            )
        case _:
            raise InputError(
                f"{at}: expected an object with a type, got {_kind(block)}"
            )


def _image(url: str, at: str) -> Image | ImageUrl:
    if url.startswith(("https://", "http://")):
        return ImageUrl(url)
    return Image(*_data_url(url, at))


def _data_url(url: str, at: str) -> tuple[str, str]:
    """Return media type and Base64 of a data URL. Raises `InputError`."""
    head, comma, data = url.partition(",")
    media_type, _, rest = head.removeprefix("data:").partition(";")
    if head.startswith("data:") and comma and rest.split(";")[-1] == "base64":
        return media_type, data
    raise InputError(
        f"{at}: not a base64 data: URL; pass the file's own bytes: data:image/png;base64,..."
    )


def _anthropic_file(
    kind: str, source: Mapping[str, Any], name: str, at: str
) -> Content:
    """Return the file in an image or document block of Anthropic's format."""
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            if kind == "image":
                return Image(media_type, data)
            return Document(media_type, data, name)
        case {"type": "file", "file_id": str(file_id)}:
            return FileId(
                file_id, "anthropic", "image/*" if kind == "image" else "", name
            )
        case {"type": "url", "url": str(url)}:
            if kind == "image":
                return _image(url, at)
            return Text(f"[document: {bracketed(url, 300)}; not fetched]")
        case {"type": "text", "data": str(text)}:
            return Text(fenced(text, name))
        case _:
            known = "base64, file, url or text"
            raise InputError(
                f"{at}.source: expected {known}, with its fields; got {_kind(source.get('type'))}"
            )


def _openai_file(file: Mapping[str, Any], at: str) -> Content:
    name = _name(file.get("filename"))
    match file:
        case {"file_data": str(url)} if url:
            return Document(*_data_url(url, at), name)
        case {"file_id": str(file_id)}:
            return FileId(file_id, "openai", "", name)
        case {"file_url": str(url)}:
            return Text(f"[document: {bracketed(url, 300)}; not fetched]")
        case _:
            raise InputError(f"{at}: a file without data; pass file_data or file_id")


def _name(value: object) -> str:
    if isinstance(value, str):
        return safe_line(value, 100)
    return ""


def _listed(content: Any, at: str) -> list[Any]:
    """Return the content as a list of blocks; a text becomes one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list | tuple):
        raise InputError(
            f"{at}: expected text or a list of parts, got {_kind(content)}"
        )
    return [_as_data(block) for block in content]


def _kinds(blocks: Sequence[Any]) -> set[str]:
    told = (block.get("type") for block in blocks if isinstance(block, Mapping))
    return {kind for kind in told if isinstance(kind, str)}


def _check_arguments(arguments: Any, at: str) -> None:
    try:
        json.dumps(arguments)
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"{at}: expected JSON, as text or as an object, got {_kind(arguments)}"
        ) from None


def _as_data(value: Any) -> Any:
    """Return an SDK's object as JSON data; any other value unchanged."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_unset=True)
    return value


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return type(value).__name__
