"""What all adapters need to write a history for a provider: names, ids, schemas, images and arguments it accepts."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any

from mcpagent.messages import Image, Message, Part, Text, ToolCall, ToolResult

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What Anthropic and OpenAI both document; anything else in a history would make every later request fail."""

NO_OUTPUT = "(no output)"
CUT_OFF = "(cut off before the arguments arrived)"

_ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_COMBINERS = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_THE_TOP = (*_COMBINERS, "not", "enum", "if", "then", "else")


def object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as it is, unless Anthropic and OpenAI would refuse the whole request for it.

    Both demand an object at the top without `anyOf`, `oneOf`, `allOf`, `not`, `enum` there. Such a schema is widened:
    the branches' properties become optional ones, so the model still sees them; arguments are validated against the
    original schema anyway. Nothing below the top level is touched.
    """
    is_legal = schema.get("type") == "object" and isinstance(schema.get("properties"), Mapping)
    if is_legal and not any(key in schema for key in _REFUSED_AT_THE_TOP):
        return dict(schema)
    kept = {key: value for key, value in schema.items() if key not in _REFUSED_AT_THE_TOP}
    properties = _properties(kept)
    required = _required(kept)
    for combiner in _COMBINERS:
        branches = schema.get(combiner)
        for branch in branches if isinstance(branches, list) else ():
            properties = {**_properties(branch), **properties}
            if combiner == "allOf":
                required += [name for name in _required(branch) if name not in required]
    widened = {**kept, "type": "object", "properties": properties}
    return {**widened, "required": required} if required else without(widened, ("required",))


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def _required(schema: Any) -> list[str]:
    found = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def legal_id(call_id: str, *, longest: int) -> str:
    """The id itself where every provider takes it, else a hash of it: the same for a call and its result."""
    if call_id and len(call_id) <= longest and not _ILLEGAL_IN_NAME.search(call_id):
        return call_id
    return "call_" + sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]


def ids_on_the_wire(messages: Iterable[Message], provider: str, *, longest: int) -> dict[str, str]:
    """By id of a call or a result, what stands for it in a request: a provider's own as it sent them, others legal."""
    ids: dict[str, str] = {}
    for message in messages:
        for call in message.tool_calls:
            ids[call.id] = call.id if message.provider == provider else legal_id(call.id, longest=longest)
        for result in message.tool_results:
            ids.setdefault(result.call_id, legal_id(result.call_id, longest=longest))
    return ids


def legal_name(name: str) -> str:
    """A called name made fit to be replayed: a model can call anything, a provider refuses what is not a name."""
    return _ILLEGAL_IN_NAME.sub("_", name)[:64] or "unnamed"


def usable_image(image: Image) -> bool:
    """Whether providers take it: a type they know and valid base64."""
    if image.media_type not in IMAGE_TYPES:
        return False
    try:
        return bool(base64.b64decode(image.data, validate=True))
    except (binascii.Error, ValueError):
        return False


def left_out(image: Image) -> str:
    """The words that stand for an image that no provider would take."""
    return f"[an image of type {image.media_type or 'unknown'} was left out: only png, jpeg, gif and webp can be shown]"


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def shown_parts(result: ToolResult) -> list[Text | Image]:
    """What a model is shown of a result: no empty text, no unusable image, never nothing."""
    parts: list[Text | Image] = []
    for part in result.content:
        if isinstance(part, Image):
            parts.append(part if usable_image(part) else Text(left_out(part)))
        elif part.text.strip():
            parts.append(part)
    return parts or [Text(NO_OUTPUT)]


def marked_error(result: ToolResult, text: str) -> str:
    """The text, saying that it is an error, for providers whose format has no flag for it."""
    says_so = text.lstrip().lower().startswith(("error", '{"error"'))
    return f"Error: {text}" if result.error and not says_so else text


def json_text(value: Any) -> str:
    """Compact JSON with the given key order: the same value is always the same bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_call(
    call_id: str, name: str, arguments: Any, *, cut_off: bool, provider_data: dict[str, Any] | None = None
) -> ToolCall:
    """A call from its arguments, an object or JSON text. They are parsed strictly and never repaired.

    Where they are not one JSON object, or the answer was cut off at this call, `malformed` holds the text: arguments
    that happen to parse may still be half of what the model meant to send.
    """
    text = arguments if isinstance(arguments, str) else json_text(arguments)
    parsed = parse_object(text)
    if parsed is None or cut_off:
        return ToolCall(call_id, name, {}, malformed=text.strip() or CUT_OFF, provider_data=provider_data or {})
    return ToolCall(call_id, name, parsed, provider_data=provider_data or {})


def parse_object(text: str) -> dict[str, Any] | None:
    """The one JSON object the text is; an empty text is `{}` (a call without arguments); else None."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def distinct_ids(parts: Iterable[Part], history: Sequence[Message]) -> tuple[Part, ...]:
    """The parts, with a new id for a call that has none, or one that another call of the conversation has.

    Some servers number the calls of every answer alike; Anthropic refuses a conversation with the same id twice.
    """
    listed = list(parts)
    seen = {call.id for message in history for call in message.tool_calls}
    given = seen | {part.id for part in listed if isinstance(part, ToolCall)}
    for position, part in enumerate(listed):
        if not isinstance(part, ToolCall):
            continue
        if not part.id or part.id in seen:
            candidates = (f"call_{len(history)}_{place}" for place in count(position))
            part = replace(part, id=next(new for new in candidates if new not in given | seen))
            listed[position] = part
        seen.add(part.id)
    return tuple(listed)


def counted(usage: object, *path: str) -> int:
    """The number at a path of a usage object; 0 where there is none, or what no number of tokens can be."""
    for key in path:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return usage if isinstance(usage, int) and not isinstance(usage, bool) and usage > 0 else 0


def without(data: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in keys}
