"""The values of a conversation: messages and their parts, tool definitions, token usage.

All are frozen dataclasses with plain JSON data, so a history can be compared, saved and passed to another provider.
Only `dump_messages` and `load_messages` convert a history to JSON and back.
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
"""The kind of request that a model's call sends to a server."""


class ToolKey(NamedTuple):
    """The identity of a tool: the ID of its source, and its name there.

    A server's ID is its name; a toolset's ID is the one passed to it. `listed` is the name under which the toolset
    lists the tool. It is part of the identity if the source has no ID (None), or lists the tool twice; else it is "".
    """

    source: str | None
    name: str
    listed: str = ""

    @property
    def own_name(self) -> str:
        """The tool's name in rules: its name in the source; the listed name if the source has no ID."""
        if self.source is not None:
            return self.name
        return self.listed

    @property
    def label(self) -> str:
        """The tool's name after the ID of its source, if the source has one."""
        if self.source is None:
            return self.listed
        return f"{self.source}.{self.name}"

    def offered_as(self, name: str) -> ToolKey:
        """Return a complete key for one stored by an older version, without `listed`: `name` is the offered name stored
        with it.
        """
        if self.source is not None or self.listed:
            return self
        return self._replace(listed=name)


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool definition as the model receives it.

    - `name`: the offered name, unique in a conversation, `^[a-zA-Z0-9_-]{1,64}$`.
    - `parameters`: the input JSON Schema from the server; only hidden characters are removed
      (`mcp/lists/shown_tools.py`).
    - `server`: the name of the configured server, None for a local function. `original_name`: the tool's name there.
    - `read_only`: the server's own claim, so only a hint; None if it makes none.
    - `source`: the ID of a local function's toolset, else "".
    - `listed`: see `ToolKey`; "" if it is the offered name or not needed.
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
        """The tool's identity, which does not depend on its offered name."""
        key = ToolKey(
            self.server or self.source or None,
            self.original_name or self.name,
            self.listed,
        )
        return key.offered_as(self.name)

    @property
    def kind(self) -> RequestKind:
        """The kind of request that a call sends: "tool", or that of a subclass."""
        return "tool"


class PromptRequest(ToolDefinition):
    """The request that a call of `get_prompt` makes: a prompt of `server`, whose name is `original_name`."""

    __slots__ = ()

    @property
    def kind(self) -> RequestKind:
        """The kind of request: "prompt"."""
        return "prompt"


class ResourceRequest(ToolDefinition):
    """The request that a call of `get_resource` makes: a resource of `server`. `original_name` is the URI that is sent.

    `read_only` is True only if the server listed exactly this URI.
    """

    __slots__ = ()

    @property
    def kind(self) -> RequestKind:
        """The kind of request: "resource"."""
        return "resource"


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that an answer cites. All fields are third-party text; `url` is "" for a file.

    `cited_text` is the cited passage, if the provider reported it.
    """

    url: str
    title: str = ""
    cited_text: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a prompt, an answer or a tool's result. `citations` are the sources of an answer, in order."""

    text: str
    provider_data: dict[str, Any] = field(default_factory=dict[str, Any])
    """Data of the provider (citations, item IDs) that later requests return to it unchanged."""
    citations: tuple[Citation, ...] = ()
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a prompt or a tool's result: `media_type` such as "image/png", `data` in Base64."""

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
    """The URL of an image. The provider loads it, if it can; mcpagent never does."""

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

    `ask` reads the file and decides by its bytes whether it is sent as text, an image, a document or a recording.
    """

    path: str | PathLike[str]


FilePart: TypeAlias = Image | Document | Audio | ImageUrl | FileId
"""A part of content other than text."""

Content: TypeAlias = Text | FilePart
"""A part of a prompt or of a tool's result."""

FILE_PARTS = (Image, Document, Audio, ImageUrl, FileId)


@dataclass(frozen=True, slots=True)
class BinaryBlock:
    """The bytes of a file stored outside of the conversation: `media_type`, `data` in Base64, and its address.

    It is not part of a message; the message's content only refers to it.
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
    """Return a copy of JSON data of any depth. Dicts and lists are copied, other values are shared."""
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
    """Return whether JSON data has more than `levels` nested levels of dicts and lists."""
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
    """A call that the model requests.

    `malformed` is the text of the arguments if it is not one JSON object; such a call never runs.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    malformed: str = ""
    provider_data: dict[str, Any] = field(default_factory=dict[str, Any])
    type: Literal["tool_call"] = "tool_call"

    def copied(self) -> ToolCall:
        """Return the call with a copy of its arguments, for code that may change them without changing the history."""
        return replace(self, arguments=json_copy(self.arguments))


@dataclass(frozen=True, slots=True)
class OffloadedResult:
    """A reference to an offloaded result, of which the conversation has a preview (`mcpagent.run.large_results`).

    `handle` is the ID with which tools read the result. `tokens` is an estimate for the whole result, `kind` its format
    in one word: "JSON", "CSV", "text". For a "binary" result with 0 tokens, the conversation has all of its text.
    """

    handle: str
    tokens: int
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call. `seconds` is its run time, without the time of questions to a person.

    `error` is None for a success. If `set_aside` refers to an offloaded result, `content` is only its preview.
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
        """The text parts of the result, joined by line breaks."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ToolsShown:
    """Tools that a search result described to the model with their signatures: offered names, and keys in the same
    order.
    """

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
    """A change of the offered tools at this point of the history. All changes together give the discovered tools.

    `added` are new or changed definitions, `removed` offered names. `lost` are those of the removed tools that are no
    longer available. `was` has tools among them that were offered from the start: the position among these, and the
    earlier definition, so that earlier messages can be sent unchanged. `joined` are tools that the model's provider can
    find by itself from here on; they are hidden until it does.
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
    """Content that only one provider understands: later requests return it to that provider unchanged, others do not
    get it.
    """

    data: dict[str, Any]
    type: Literal["provider_block"] = "provider_block"


@dataclass(frozen=True, slots=True)
class Container:
    """The container in which a provider ran code for this answer; the next request of the conversation reuses it.

    `expires_at` is the time that the provider reported (ISO 8601), or "".
    """

    id: str
    expires_at: str = ""
    type: Literal["container"] = "container"


@dataclass(frozen=True, slots=True)
class Pinned:
    """Marks a message that stays verbatim when a compaction summarises the messages around it."""

    type: Literal["pinned"] = "pinned"


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction: from this message on, requests omit earlier messages. The last one in a history counts.

    - `kept`: the number of messages before this one that are still sent.
    - `pinned`: further messages that are sent, counted backwards (1: the message before this one).
    - `summary`: a model's summary of the others; "" if there are no others, or if it failed (`is_cut`).
    - `shortened`: results that are sent instead of longer ones of the same calls.
    - `used`: names of discovered tools that were called, the latest last.
    - `unmoved`: how many of the last messages still follow the messages that they were written after. In the first
      message of a request, `kept` counts the following messages for which that is not so.
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
        """Return whether earlier messages are omitted."""
        return bool(self.summary) or self.is_cut


def texts_for_model(content: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return the content of a result with each text cleaned for a model; the same tuple if nothing changes."""
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
"""The API of a model: Anthropic's Messages, OpenAI's Responses, or Chat Completions, which most other servers have."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The model that wrote an answer, and its address: other models can read only the text and the calls of the answer.

    `address` is host, port and path of the API, `provider` its display name. A field is "" if unknown, as in imported
    histories. `models/sendable_history.py` decides which parts another model may receive.
    """

    provider: str
    protocol: WireProtocol | Literal[""] = ""
    address: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message. Tool results, and the tool changes that they caused, are in "tool" messages in call order.

    `origin` is the model that wrote an assistant message; None if no provider's model wrote it.
    """

    role: Role
    parts: tuple[Part, ...]
    origin: Origin | None = None

    @property
    def text(self) -> str:
        """The text parts of the message, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls in the message in order, including malformed ones."""
        calls: tuple[ToolCall, ...] = ()
        for part in self.parts:
            if isinstance(part, ToolCall):
                calls += (part,)
        return calls

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources that the message cites, each once, in order."""
        found: dict[tuple[str, str], Citation] = {}
        for part in self.parts:
            for one in part.citations if isinstance(part, Text) else ():
                found.setdefault((one.url, one.title), one)
        return tuple(found.values())

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results in the message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


Prompt: TypeAlias = str | Sequence[str | Content | File]
"""A user's prompt: text, or text and files in order."""


def user_message(text: str) -> Message:
    """Return a user's message with one text part."""
    return Message("user", (Text(text),))


MOST_COUNTED_TOKENS = 10**15
"""Maximum of a token count, so that sums of counts can still be stored."""

_WHOLE = {int}


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the provider reports them; values add up with `+`.

    `input_tokens` is the whole input; `cache_read_tokens` and `cache_write_tokens` are the parts of it that were read
    from and written to the prompt cache. `web_searches` are searches that the provider ran and charges for. An invalid
    number, such as a negative one, becomes 0.
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
        # There are many values, so the check of a valid one must be cheap.
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
        """The sum of input and output tokens."""
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

    `dollars` (US) is the sum for requests with a known price; `cost_known` is True if that is every request.
    `definition_tokens` estimates (characters / 4) the definitions that the requests offered. `saved_tokens` estimates
    how much more offering all known tools would have cost; negative if tool search cost more. `turns`, `tool_calls` and
    `seconds` are as in `Limits`; two values that differ only in seconds are equal. `estimated_tokens` replace missing
    counts of the provider: they are not in `usage`, but count for limits.
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
        """The sum of input and output tokens, including estimated ones."""
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

    `place` is the position of its message; `offered` has the names of the offered tools, in order. `dollars` is None if
    the price is unknown; `seconds` is the time until the answer was complete. `begun` is the time of the request, in
    seconds since 1970, 0 if unknown. `saved_tokens` estimates the definitions that tool search kept out of the request;
    `known_tools` is the number of all tools.
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
    """Return the history as plain JSON data. Raises `InputError` unless it is a list of messages."""
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
    """Return the history from data that `dump_messages` of this or another version returned.

    Raises `InputError` if the data is not a history, with the position as a path, `messages[2].parts[0].text`. Unknown
    fields are ignored. Unknown types of content are an error, since a history without them would be a different one. If
    an old history has only the `provider` of an answer, the other fields of its origin are "".
    """
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        raise _no_history("", f"expected a list of messages, got {_kind(data)}")
    return [load_message(item, place) for place, item in enumerate(data)]


def load_message(item: object, place: int) -> Message:
    """Load one message like `load_messages`; `place` is its position, for the text of an `InputError`."""
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
    """Return whether a validation error is about a content type that was only tried: the result names another type."""
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
