"""The values of a conversation: messages and their parts, tool definitions, token usage.

All are frozen dataclasses that hold plain JSON data, so a history can be compared, saved and handed to
another provider. `dump_messages` and `load_messages` are the only way to JSON and back.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from mcpagent.errors import InputError
from mcpagent.utilities.python.argument_checks import expect_kind
from mcpagent.utilities.python.plain_data import adapter
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    pass

Role: TypeAlias = Literal["user", "assistant", "tool"]

ToolErrorKind: TypeAlias = Literal[
    "unknown_tool",
    "not_loaded",
    "invalid_arguments",
    "denied",
    "timeout",
    "failed",
    "cancelled",
    "server_down",
    "repeated",
]
"""The reason why a tool call has no result; "failed" is the tool's own error, the others are mcpagent's."""


RequestKind: TypeAlias = Literal["tool", "prompt", "resource"]
"""The kind of a server request that a model caused."""


class ToolKey(NamedTuple):
    """The identity of a tool: the ID of its source, and the name that the source itself has for it.

    A server's ID is its name, a toolset has the ID that it was given. A tool without a source ID (None) is identified
    by `listed` as well, the name under which its toolset lists it. So is one that its source lists twice.
    """

    source: str | None
    name: str
    listed: str = ""

    @property
    def own_name(self) -> str:
        """The name that rules use: the source's own; without a source ID, the one that is listed."""
        if self.source is not None:
            return self.name
        return self.listed

    @property
    def label(self) -> str:
        """The own name behind the source ID, if there is one."""
        if self.source is None:
            return self.listed
        return f"{self.source}.{self.name}"

    def offered_as(self, name: str) -> ToolKey:
        """Complete a key that was stored before keys had `listed`, by the offered name that was stored with it."""
        if self.source is not None or self.listed:
            return self
        return self._replace(listed=name)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool definition as the model receives it.

    `name` is the offered name (unique in a conversation, `^[a-zA-Z0-9_-]{1,64}$`). `parameters` is the input JSON
    Schema as its server gave it, unless something hides in it (`mcp/lists/shown_tools.py`). `server` is the configured
    server's name, None for a local function; `original_name` is what that server calls the tool. `read_only` is the
    server's own claim, so a hint only. `source` is the ID of a local function's toolset, else "". `listed` is
    the name under which its toolset lists a tool, if that identifies it and is not the offered name.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    server: str | None = None
    original_name: str = ""
    title: str = ""
    category: str = ""
    read_only: bool | None = None
    tags: tuple[str, ...] = ()
    source: str = ""
    listed: str = ""

    @property
    def key(self) -> ToolKey:
        """The tool's identity, which stays the same under any offered name."""
        key = ToolKey(
            self.server or self.source or None,
            self.original_name or self.name,
            self.listed,
        )
        return key.offered_as(self.name)

    @property
    def kind(self) -> RequestKind:
        """The kind of request that a call makes: a tool, or the kinds of `PromptRequest` and `ResourceRequest`."""
        return "tool"


class PromptRequest(ToolDefinition):
    """A prompt of `server`, as a call of `get_prompt` requests it; `original_name` is the prompt's."""

    __slots__ = ()

    @property
    def kind(self) -> RequestKind:
        """A prompt."""
        return "prompt"


class ResourceRequest(ToolDefinition):
    """A resource of `server`, as a call of `get_resource` requests it; `original_name` is the URI that is sent.

    `read_only` is True if its server listed that very URI.
    """

    __slots__ = ()

    @property
    def kind(self) -> RequestKind:
        """Return "resource", for each request."""
        return "resource"


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that the words of an answer name: a page's `url`, or "" of a file; third-party text, all of it.

    `cited_text` is the cited passage, if the provider reported it.
    """

    url: str
    title: str = ""
    cited_text: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a prompt, an answer or a tool's result. `citations` are the sources of an answer's text, in order."""

    text: str
    provider_data: dict[str, Any] = field(default_factory=dict[str, Any])
    """Data of the provider (citations, item IDs), which goes back to that provider unchanged."""
    citations: tuple[Citation, ...] = ()
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a prompt or a tool's result: `media_type` such as "image/png", `data` in Base64."""

    media_type: str
    data: str
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class Document:
    """A file in a prompt or a tool's result: `media_type` such as "application/pdf", `data` in Base64, its `name`.

    A model whose endpoint does not accept the file receives its text, or a description.
    """

    media_type: str
    data: str
    name: str = ""
    type: Literal["document"] = "document"

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return b64decode(self.data)


@dataclass(frozen=True, slots=True)
class Audio:
    """A recording in a prompt or a tool's result: `media_type` such as "audio/wav", `data` in Base64, its `name`."""

    media_type: str
    data: str
    name: str = ""
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True)
class ImageUrl:
    """The address of a picture. mcpagent never fetches it: the provider does, if it can."""

    url: str
    type: Literal["image_url"] = "image_url"


@dataclass(frozen=True, slots=True)
class FileId:
    """A file that a provider stores, by the ID that it returned for the upload.

    `provider` names the provider, as in `Origin.provider`; other providers receive a description. `media_type` decides
    whether the file is written as an image or as a document. A file of OpenAI's code interpreter is in a `container`.
    """

    id: str
    provider: str = ""
    media_type: str = ""
    name: str = ""
    container: str = ""
    type: Literal["file_id"] = "file_id"


@dataclass(frozen=True, slots=True)
class File:
    """A file for a prompt, by its path: `ask(["Summarise this.", File("report.pdf")])`.

    `ask` reads it, and turns it into a part by its bytes: text, a picture, a document or a recording.
    """

    path: str | PathLike[str]


FilePart: TypeAlias = Image | Document | Audio | ImageUrl | FileId
"""A part that is no text."""

Content: TypeAlias = Text | FilePart
"""A part of a prompt or of a tool's result."""

FILE_PARTS = (Image, Document, Audio, ImageUrl, FileId)


@dataclass(frozen=True, slots=True)
class BinaryBlock:
    """The bytes of a file that is stored outside of the conversation: `media_type`, `data` in Base64, and its address.

    It is no part of a message; the content names it.
    """

    media_type: str
    data: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning; `provider_data` is the block as that provider sent it (signature, encrypted content)."""

    text: str
    provider_data: dict[str, Any] = field(default_factory=dict[str, Any])
    type: Literal["thinking"] = "thinking"


_T = TypeVar("_T")


def json_copy(value: _T) -> _T:
    """Return a copy of JSON data of any depth; it shares values other than dicts and lists."""
    top: list[Any] = [value]
    waiting: list[dict[Any, Any] | list[Any]] = [top]
    while waiting:
        inside = waiting.pop()
        for key, item in (
            inside.items() if isinstance(inside, dict) else enumerate(inside)
        ):
            if isinstance(item, dict | list):
                inside[key] = copied = item.copy()
                waiting.append(copied)
    copy: _T = top[0]
    return copy


def nests_deeper(value: Any, levels: int) -> bool:
    """Return whether JSON data has more than `levels` levels of dicts and lists."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asks for. `malformed` is the argument text if that was not one JSON object; it is never run."""

    id: str
    name: str
    arguments: dict[str, Any]
    malformed: str = ""
    provider_data: dict[str, Any] = field(default_factory=dict[str, Any])
    type: Literal["tool_call"] = "tool_call"

    def copied(self) -> ToolCall:
        """Return the call with a copy of its arguments, for code that may change them: the history stays unchanged."""
        return replace(self, arguments=json_copy(self.arguments))


@dataclass(frozen=True, slots=True)
class OffloadedResult:
    """A reference to an offloaded result; the conversation has a preview of it (`mcpagent.run.large_results`).

    Readers use `handle` to get it. `tokens` estimates how much of the window the whole would take, `kind` is its format
    in one word: "JSON", "CSV", "text". A "binary" result with 0 tokens has all of its text in the conversation.
    """

    handle: str
    tokens: int
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call. `seconds` is its run time, without the time in which a person was asked.

    With `set_aside`, `content` is a preview of the result.
    """

    call_id: str
    name: str
    content: tuple[Content, ...]
    error: ToolErrorKind | None = None
    seconds: float = 0.0
    set_aside: OffloadedResult | None = None
    type: Literal["tool_result"] = "tool_result"

    @property
    def text(self) -> str:
        """Its text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ToolsShown:
    """Tools whose call signature a search result showed the model, by offered name, and by key in the same order."""

    names: tuple[str, ...]
    keys: tuple[ToolKey, ...] = ()
    type: Literal["tools_shown"] = "tools_shown"

    @property
    def tools(self) -> dict[str, ToolKey]:
        """The identity of each tool, by offered name."""
        return {
            name: key.offered_as(name)
            for name, key in zip(self.names, self.keys, strict=False)
        }


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """A change of the offered tools at this point of the history: folding these parts returns the discovered tools.

    `was` are the tools among them that were offered from the start: their position among all of these, and their
    definition so far, so that earlier messages can be sent again unchanged. `joined` are tools that the model's
    provider can find by itself from here on; they are hidden until it does.
    """

    added: tuple[ToolDefinition, ...] = ()
    removed: tuple[str, ...] = ()
    was: tuple[tuple[int, ToolDefinition], ...] = ()
    joined: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    type: Literal["tools_changed"] = "tools_changed"

    @property
    def tools(self) -> dict[str, ToolKey]:
        """The identity of each tool that was added, by offered name."""
        return {tool.name: tool.key for tool in self.added}


@dataclass(frozen=True, slots=True)
class ProviderBlock:
    """Content only its own provider understands: replayed to it unchanged, skipped by the others."""

    data: dict[str, Any]
    type: Literal["provider_block"] = "provider_block"


@dataclass(frozen=True, slots=True)
class Container:
    """The container in which a provider ran code for this answer: the next request of the conversation uses it again.

    `expires_at` is the provider's own time (ISO 8601), "" if it reported none.
    """

    id: str
    expires_at: str = ""
    type: Literal["container"] = "container"


@dataclass(frozen=True, slots=True)
class Pinned:
    """Mark a message that stays verbatim when others of its age are summarised."""

    type: Literal["pinned"] = "pinned"


@dataclass(frozen=True, slots=True)
class Compacted:
    """From here on, a model receives less of the earlier messages.

    The history itself stays complete; the last one counts.

    Of the messages before its own, the last `kept` are sent, and those of `pinned`, counted back from its own (1: the
    message before it). `summary` is a model's summary of the others; "" if there are no others, or if it could not be
    made (`is_cut`). `shortened` are results in place of longer ones of the same calls. `used` names the found tools
    that were called, the latest last. The last `unmoved` messages before it still follow the messages that they were
    written after. In the head of a request, `kept` counts the following messages that do not.
    """

    kept: int
    summary: str = ""
    pinned: tuple[int, ...] = ()
    shortened: tuple[ToolResult, ...] = ()
    used: tuple[str, ...] = ()
    unmoved: int = 0
    is_cut: bool = False
    type: Literal["compacted"] = "compacted"

    @property
    def leaves_out(self) -> bool:
        """True if it replaces messages that are no longer sent."""
        return bool(self.summary) or self.is_cut


def texts_for_model(content: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return a result's content with each text cleaned for a model; the same tuple if nothing changes."""
    shown = tuple(
        replace(part, text=text)
        if isinstance(part, Text) and (text := for_model(part.text)) is not part.text
        else part
        for part in content
    )
    if all(one is other for one, other in zip(shown, content, strict=True)):
        return content
    return shown


Part: TypeAlias = (
    Text
    | Thinking
    | Image
    | Document
    | Audio
    | ImageUrl
    | FileId
    | ToolCall
    | ToolResult
    | ToolsShown
    | ToolsChanged
    | ProviderBlock
    | Container
    | Pinned
    | Compacted
)


WireProtocol: TypeAlias = Literal["messages", "responses", "chat"]
"""Anthropic's Messages API, OpenAI's Responses API, and Chat Completions, which most other servers speak."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The model that wrote an answer, and its address: parts other than text and calls can only be read there.

    `address` is host, port and path of the API, `provider` its name for people; "" if a field is unknown, as in
    histories from elsewhere. `models/sendable_history.py` decides which parts another model may receive.
    """

    provider: str
    protocol: WireProtocol | Literal[""] = ""
    address: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message. Results of tool calls, and the tool changes they caused, are in "tool" messages in call order.

    `origin` is of an assistant message, and of each of its parts: None if no provider's model wrote it.
    """

    role: Role
    parts: tuple[Part, ...]
    origin: Origin | None = None

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, malformed ones too, in order."""
        calls: tuple[ToolCall, ...] = ()
        for part in self.parts:
            if isinstance(part, ToolCall):
                calls += (part,)
        return calls

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources that its words name, each once, in order."""
        found: dict[tuple[str, str], Citation] = {}
        for part in self.parts:
            for one in part.citations if isinstance(part, Text) else ():
                found.setdefault((one.url, one.title), one)
        return tuple(found.values())

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results in it, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


Prompt: TypeAlias = str | Sequence[str | Content | File]
"""A user's prompt: text, or text and files in order."""


def user_message(text: str) -> Message:
    """Return a user's message with one text part."""
    return Message("user", (Text(text),))


MOST_COUNTED_TOKENS = 10**15
"""The limit of a token count, so that sums of counts can still be stored."""

_WHOLE = {int}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; values add up with `+`.

    `input_tokens` is the whole input, cached part included; `cache_read_tokens` and `cache_write_tokens` are the tokens
    of it that were read from and written to the prompt cache. `web_searches` are those that the provider ran, and
    charges for. An invalid number of tokens, such as one below 0, becomes 0: it counts as not reported.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    web_searches: int = 0

    def __post_init__(self) -> None:
        told = (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.requests,
            self.web_searches,
        )
        # There are many: the check of valid values must be cheap.
        if (
            {*map(type, told)} == _WHOLE
            and min(told) >= 0
            and max(told) <= MOST_COUNTED_TOKENS
        ):
            return
        for name, value in zip(self.__slots__, told, strict=True):
            object.__setattr__(self, name, _counted(value))

    @property
    def tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.requests + other.requests,
            self.web_searches + other.web_searches,
        )


def _counted(value: Any) -> int:
    if isinstance(value, float) and math.isfinite(value):
        value = math.ceil(value)
    try:
        if isinstance(value, bool):
            return 0
        return min(max(index(value), 0), MOST_COUNTED_TOKENS)
    except TypeError:
        return 0


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Spent:
    """The resources used: tokens, money, the share of tool definitions, turns, calls, time. Values add up with `+`.

    `dollars` (US) adds up the requests whose price is known; `cost_known` is True if these are all requests.
    `definition_tokens` estimates (characters / 4) the definitions that the requests offered, `saved_tokens` the tokens
    that offering every known tool each time would have added to that: below 0 if there are fewer tools than search
    tools are worth. `turns`, `tool_calls` and `seconds` are counted as `Limits` count them; sums that differ in seconds
    alone are equal. `estimated_tokens` are tokens that no provider reported, of requests that were answered without a
    count or cut off: they are not in `usage`, but count for limits as these do.
    """

    usage: Usage = NO_USAGE
    dollars: float = 0.0
    cost_known: bool = True
    definition_tokens: int = 0
    saved_tokens: int = 0
    turns: int = 0
    tool_calls: int = 0
    seconds: float = field(default=0.0, compare=False)
    estimated_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Input and output, those that are estimated too."""
        return self.usage.tokens + self.estimated_tokens

    def __add__(self, other: Spent) -> Spent:
        if other.usage is NO_USAGE:
            usage = self.usage
        else:
            usage = self.usage + other.usage
        return Spent(
            usage,
            self.dollars + other.dollars,
            self.cost_known and other.cost_known,
            self.definition_tokens + other.definition_tokens,
            self.saved_tokens + other.saved_tokens,
            turns=self.turns + other.turns,
            tool_calls=self.tool_calls + other.tool_calls,
            seconds=self.seconds + other.seconds,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The cost of one answer of a model.

    `place` is the position of its message; `offered` names the offered tools, in order.

    `dollars` is None if the price is unknown, `seconds` the time until the answer was complete. `begun` is the time of
    the request, in seconds since 1970, 0 if unknown. `saved_tokens` estimates the tokens of the definitions that were
    not sent, of `known_tools` in all.
    """

    place: int
    model: str
    offered: tuple[str, ...]
    usage: Usage = field(default_factory=Usage)
    dollars: float | None = None
    seconds: float = 0.0
    begun: float = 0.0
    known_tools: int = 0
    saved_tokens: int = 0


def dump_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the history as plain JSON data. Raises `InputError` if it is no list of messages."""
    expect_kind("dump_messages: messages", messages, Iterable[Message], InputError)
    data: list[dict[str, Any]] = adapter(list[Message]).dump_python(
        list(messages), mode="json"
    )
    for part in (part for message in data for part in message["parts"]):
        if part["type"] == "tool_result" and part["set_aside"] is None:
            del part["set_aside"]
        for text in (part, *(part["content"] if part["type"] == "tool_result" else ())):
            if not text.get("citations", True):  # most texts have no citations
                del text["citations"]
    return data


def load_messages(data: object) -> list[Message]:
    """Return the history that `dump_messages` returned, in this version or another.

    Raises `InputError` if it is not one, with the position as a path, `messages[2].parts[0].text`. Unknown fields are
    ignored. Unknown kinds of content are an error, since a history without them would be a different one. If an old
    history names only the `provider` of an answer, nothing else is known of its origin.
    """
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        raise _no_history("", f"expected a list of messages, got {_kind(data)}")
    return [load_message(item, place) for place, item in enumerate(data)]


def load_message(item: object, place: int) -> Message:
    """Load a message of a history like `load_messages`; `place` is its position, for the text of an `InputError`."""
    if isinstance(item, Message):
        return item
    path = f"[{place}]"
    parts = None
    if isinstance(item, Mapping):
        parts = item.get("parts")
    if not isinstance(item, Mapping) or not isinstance(parts, list | tuple):
        raise _no_history(
            path, f"expected an object with role and parts, got {_kind(item)}"
        )
    loaded = [
        _loaded_part(part, f"{path}.parts[{place}]") for place, part in enumerate(parts)
    ]
    former = {}
    if (named := item.get("provider")) and "origin" not in item:
        former = {"origin": {"provider": named}}
    message: Message = _loaded(Message, {**item, **former, "parts": ()}, path)
    return replace(message, parts=tuple(loaded))


def _loaded_part(part: Any, path: str) -> Part:
    kinds = {kind.__dataclass_fields__["type"].default: kind for kind in get_args(Part)}
    if isinstance(part, get_args(Part)):
        known: Part = part
        return known
    if not isinstance(part, Mapping):
        raise _no_history(path, f"expected an object, got {_kind(part)}")
    name = part.get("type")
    if not isinstance(name, str) or name not in kinds:
        if isinstance(name, str):
            told = f'"{safe_line(name, 40)}"'
        else:
            told = _kind(name)
        raise _no_history(
            f"{path}.type", f"expected one of {', '.join(kinds)}, got {told}"
        )
    loaded: Part = _loaded(kinds[name], part, path)
    return loaded


def _loaded(kind: Any, item: Mapping[Any, Any], path: str) -> Any:
    from pydantic import ValidationError

    try:
        return adapter(kind).validate_python(dict(item))
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False)
        first = next(
            (one for one in told if not _of_another_kind(one["loc"], item)), told[0]
        )
        steps = [step for step in first["loc"] if step not in _CONTENT]
        where = "".join(
            f"[{step}]" if isinstance(step, int) else f".{safe_line(step, 40)}"
            for step in steps
        )
        raise _no_history(path + where, safe_line(first["msg"], 120)) from None


_CONTENT = {
    "Text": "text",
    "Image": "image",
    "Document": "document",
    "Audio": "audio",
    "ImageUrl": "image_url",
    "FileId": "file_id",
}


def _of_another_kind(steps: Sequence[int | str], result: Mapping[Any, Any]) -> bool:
    """Return whether an error is about a content type that was tried, but that the result does not claim."""
    match steps:
        case ["content", int(place), str(tried), *_] if tried in _CONTENT:
            piece = result["content"][place]
            return isinstance(piece, Mapping) and piece.get("type") != _CONTENT[tried]
        case _:
            return False


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return type(value).__name__


def _no_history(path: str, problem: str) -> InputError:
    return InputError(
        f"messages{path}: {problem}; pass what dump_messages() gave, unchanged"
    )
