"""Shared conversions for writing a history: names, IDs, schemas, files and arguments in forms that providers accept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any, TypeAlias

from mcpagent.history.intake.file_descriptions import file_line
from mcpagent.models.base import ResponseStop
from mcpagent.utilities.json_schema.parts import properties_of, required_of
from mcpagent.utilities.text.for_model import fenced, set_apart
from mcpagent.values.messages import (
    Audio,
    Content,
    Document,
    FilePart,
    Image,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    nests_deeper,
)

Written: TypeAlias = dict[str, Any]
"""A part of a message in a provider's format."""

NO_OUTPUT = "(no output)"
NO_INPUT = "(no input)"
"""Replaces a missing or empty user turn, which Anthropic, Gemini and many chat templates require."""
NO_ANSWER = "(no answer)"
"""Replaces a missing answer, if the provider requires one."""
NO_RESULT = "(no result: the call was not run)"
"""The result for a call without one, because every provider refuses such a call."""

_LINE = "\n"
MAX_ARGUMENT_CHARACTERS, MAX_ARGUMENT_LEVELS = 4_000_000, 100
"""Maximum characters and levels of a call's arguments as JSON: more than any model writes, and still valid in the next
request.
"""
CUT_OFF = "(cut off before the arguments arrived)"

_ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_COMBINERS = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_THE_TOP = (*_COMBINERS, "not", "enum", "if", "then", "else")


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema unchanged, unless Anthropic or OpenAI would refuse the whole request because of it.

    Both require an object at the top, without `anyOf`, `oneOf`, `allOf`, `not` or `enum` there. Other schemas are
    widened: the properties of the branches become optional ones, so that the model still sees them. Arguments are
    validated against the original schema anyway. Nothing below the top level changes.
    """
    is_legal = schema.get("type") == "object" and isinstance(
        schema.get("properties"), Mapping
    )
    if is_legal and not any(key in schema for key in _REFUSED_AT_THE_TOP):
        return dict(schema)
    kept = {
        key: value for key, value in schema.items() if key not in _REFUSED_AT_THE_TOP
    }
    properties = properties_of(kept)
    required = required_of(kept)
    for combiner in _COMBINERS:
        branches = schema.get(combiner)
        for branch in branches if isinstance(branches, list) else ():
            properties = {**properties_of(branch), **properties}
            if combiner == "allOf":
                required += [
                    name for name in required_of(branch) if name not in required
                ]
    widened = {**kept, "type": "object", "properties": properties}
    if required:
        return {**widened, "required": required}
    return without(widened, ("required",))


def legal_id(call_id: str, *, longest: int) -> str:
    """Return the ID itself if every provider accepts it, else a hash of it, so that a call and its result get the
    same.
    """
    if call_id and len(call_id) <= longest and not _ILLEGAL_IN_NAME.search(call_id):
        return call_id
    return "call_" + sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]


def ids_on_the_wire(
    messages: Iterable[Message],
    legal: Callable[[str], str],
    own: Callable[[str], str] = str,
) -> dict[str, str]:
    """Return the ID in requests for each call and result: IDs of other providers made `legal`, the provider's own ones
    through `own`.
    """
    ids: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                if message.origin is not None:
                    ids[part.id] = own(part.id)
                else:
                    ids[part.id] = legal(part.id)
            elif isinstance(part, ToolResult) and part.call_id not in ids:
                ids[part.call_id] = legal(part.call_id)
    return ids


def sendable_name(name: str, longest: int = 64) -> str:
    """Return the name of a call in a form that providers accept, because a model can call any name."""
    return _ILLEGAL_IN_NAME.sub("_", name)[:longest] or "unnamed"


LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def arguments_text(arguments: Any) -> str:
    """Return the arguments of a call as the JSON text of an object: unchanged if they are one, else "{}".

    Servers parse the arguments of earlier calls. A call with unreadable arguments has an error result anyway.
    """
    if isinstance(arguments, str):
        if arguments.strip() and parse_object(arguments) is not None:
            return arguments
        return "{}"
    if isinstance(arguments, dict):
        return json_text(arguments)
    return "{}"


def data_url(part: Image | Document | Audio) -> str:
    """Return `data:<media type>;base64,<data>`, OpenAI's form of a file."""
    return f"data:{part.media_type};base64,{part.data}"


def shown_parts(result: ToolResult) -> list[Content]:
    """Return the parts of a result without empty texts, but at least one part."""
    parts: list[Content] = []
    for part in result.content:
        if not isinstance(part, Text) or part.text.strip():
            parts.append(part)
    return parts or [Text(NO_OUTPUT)]


WriteFile: TypeAlias = Callable[[FilePart], Written | None]
"""Callback that writes a file in a provider's format; None if the API has no form for it."""


def written_parts(
    parts: Iterable[Content], text_type: str, write_file: WriteFile
) -> list[Written]:
    """Return the parts in a provider's format: no empty texts, and a description for each file that the API has no form
    for.
    """
    written: list[Written] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text.strip():
                written.append({"type": text_type, "text": part.text})
        else:
            in_words = {"type": text_type, "text": file_line(part, "not shown")}
            written.append(write_file(part) or in_words)
    return written


def plain_content(content: list[Written]) -> str | list[Written]:
    """Return the content as a string if it is a single text, because every server supports that."""
    if len(content) == 1 and "text" in content[0]:
        return str(content[0]["text"])
    return content


def headed(result: ToolResult, head: str, gap: str) -> list[Content]:
    """Return the parts of a result for embedding in a larger text, after a heading with the tool's name.

    No text in the result can imitate the text after it: see `set_apart`.
    """
    first, *others = _joined(shown_parts(result))
    apart = (
        Text(fenced(part.text)) if isinstance(part, Text) else part for part in others
    )
    if not isinstance(first, Text):
        return [Text(head), first, *apart]
    said = marked_error(result, first.text)
    words = set_apart(said)
    return [Text(f"{head}{gap if words == said else _LINE}{words}"), *apart]


def _joined(parts: Iterable[Content]) -> list[Content]:
    """Merge neighbouring texts, one per line."""
    joined: list[Content] = []
    for part in parts:
        last = None
        if joined:
            last = joined[-1]
        if isinstance(part, Text) and isinstance(last, Text):
            joined[-1] = Text(f"{last.text}\n{part.text}")
        else:
            joined.append(part)
    return joined


def marked_error(result: ToolResult, text: str) -> str:
    """Return the text of a result, marked as an error if it is one, for providers whose format has no flag for
    errors.
    """
    if not result.error:
        return text
    says_so = text.lstrip().lower().startswith(("error", '{"error"'))
    if says_so:
        return text
    return f"Error: {text}"


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_text(value: Any) -> str:
    """Return compact JSON in the existing order of keys: the same value always gives the same bytes."""
    return _COMPACT.encode(value)


def read_call(
    call_id: str,
    name: str,
    arguments: Any,
    *,
    cut_off: bool,
    provider_data: dict[str, Any] | None = None,
) -> ToolCall:
    """Return a call. `arguments`, an object or JSON text, are parsed strictly and never repaired.

    If they are not one JSON object, or the answer was cut off at this call, `malformed` has the text: arguments that
    can be parsed may still be incomplete.
    """
    if isinstance(arguments, str):
        text = arguments
    else:
        text = json_text(arguments)
    parsed = None
    if len(text) <= MAX_ARGUMENT_CHARACTERS:
        parsed = parse_object(text)
    if parsed is None or cut_off:
        return ToolCall(
            call_id,
            name,
            {},
            malformed=text.strip() or CUT_OFF,
            provider_data=provider_data or {},
        )
    return ToolCall(call_id, name, parsed, provider_data=provider_data or {})


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse one JSON object; an empty text gives {} (a call without arguments). None for any other text.

    An object that is nested too deeply is also refused, because it could not be written into the next request.
    """
    if not text.strip():
        return {}
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    opened = text.count("{") + text.count("[")
    if opened > MAX_ARGUMENT_LEVELS and nests_deeper(value, MAX_ARGUMENT_LEVELS):
        return None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)


def distinct_ids(parts: Iterable[Part], history: Sequence[Message]) -> tuple[Part, ...]:
    """Return the parts, with a new ID for each call that has none or has the ID of another call.

    Some servers number the calls of every answer in the same way; Anthropic refuses a conversation with the same ID
    twice.
    """
    listed = list(parts)
    if not any(isinstance(part, ToolCall) for part in listed):
        return tuple(listed)
    seen = {
        part.id
        for message in history
        for part in message.parts
        if isinstance(part, ToolCall)
    }
    given = seen | {part.id for part in listed if isinstance(part, ToolCall)}
    for position, part in enumerate(listed):
        if not isinstance(part, ToolCall):
            continue
        if not part.id or part.id in seen:
            candidates = (f"call_{len(history)}_{place}" for place in count(position))
            part = replace(
                part, id=next(new for new in candidates if new not in given | seen)
            )
            listed[position] = part
        seen.add(part.id)
    return tuple(listed)


def usage_count(usage: object, *path: str) -> int:
    """Return the number at a path of a usage object; 0 if it is missing or not a valid token count."""
    for key in path:
        if isinstance(usage, Mapping):
            usage = usage.get(key)
        else:
            usage = None
    if isinstance(usage, int) and not isinstance(usage, bool) and usage > 0:
        return usage
    return 0


def openai_usage(usage: object, sent: str, written: str) -> Usage:
    """Return the usage. `sent` and `written` are the API's names for input and output tokens; the input includes cached
    tokens.
    """
    return Usage(
        input_tokens=usage_count(usage, sent),
        output_tokens=usage_count(usage, written),
        cache_read_tokens=usage_count(usage, f"{sent}_details", "cached_tokens"),
        cache_write_tokens=usage_count(usage, f"{sent}_details", "cache_write_tokens"),
        requests=1,
    )


def stop_of(message: Message, *, cut: bool, refused: bool) -> ResponseStop:
    """Return the reason for the end of an answer."""
    if cut or refused:
        if cut:
            return "length"
        return "refusal"
    if message.tool_calls:
        return "tool_calls"
    return "end"


def without(data: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a copy of the object without these keys; the order of the others stays."""
    return {key: value for key, value in data.items() if key not in keys}
