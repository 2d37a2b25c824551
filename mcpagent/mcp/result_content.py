"""Convert results of MCP servers to content for a model: text, images, and descriptions of all else."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any

from mcpagent.utilities.python.worker_threads import json_in_steps
from mcpagent.utilities.text.for_model import (
    fenced,
    for_model,
    line_for_model,
    set_apart,
)
from mcpagent.values.messages import BinaryBlock, Image, Text
from mcpagent.values.tools import ToolOutput

Content = Text | Image | BinaryBlock

_ROUND = str.maketrans("[]<>", "()()")
_ESCAPED = str.maketrans({"<": "%3C", ">": "%3E", " ": "%20"})
"""Of an address: what RFC 3986 has no place for."""


def output_of_call(result: dict[str, Any]) -> ToolOutput:
    """Convert a `tools/call` result. Structured content becomes JSON text if the result has no text."""
    content, blocks = _apart(
        part for block in result.get("content") or () for part in parts_of_block(block)
    )
    structured = result.get("structuredContent")
    if structured is not None and not any(
        isinstance(part, Text) and part.text.strip() for part in content
    ):
        content += (Text(json_in_steps(structured)),)
    if not says_true(result.get("isError")):
        return ToolOutput(content, structured=structured, blocks=blocks)
    return ToolOutput(
        content or (Text("the tool failed and did not say why"),),
        "failed",
        blocks=blocks,
    )


def _apart(
    parts: Iterable[Content],
) -> tuple[tuple[Text | Image, ...], tuple[BinaryBlock, ...]]:
    """Return the parts for a model, which name the binary blocks, and the blocks."""
    shown, blocks = list[Text | Image](), list[BinaryBlock]()
    for part in parts:
        if isinstance(part, BinaryBlock):
            blocks.append(part)
            part = Text(_described(part))
        shown.append(part)
    return tuple(shown), tuple(blocks)


def says_true(value: Any) -> bool:
    """Return whether a flag is set; some servers write it as text."""
    return value not in (None, "", 0) and str(value).lower() not in ("false", "0", "no")


def output_of_prompt(result: dict[str, Any]) -> ToolOutput:
    """Return a `prompts/get` result: its messages one after the other, each after its role."""
    parts, blocks = list[Text | Image](), list[BinaryBlock]()
    for message in result.get("messages") or ():
        parts.append(Text(f"[{line_for_model(str(message.get('role')), 20)}]"))
        shown, found = _apart(parts_of_block(message.get("content")))
        parts.extend(map(_said, shown))
        blocks += found
    return ToolOutput(_joined(parts), blocks=tuple(blocks))


def _said(part: Text | Image) -> Text | Image:
    """Return the content after a role, fenced if it could imitate another role."""
    if isinstance(part, Image):
        return part
    return Text(
        fenced(for_model(part.text))
        if part.text.lstrip().startswith("[")
        else set_apart(for_model(part.text))
    )


def output_of_resource(result: dict[str, Any]) -> ToolOutput:
    """Return a `resources/read` result: the text of its contents; images as images."""
    parts: list[Content] = []
    for item in result.get("contents") or ():
        media_type = str(item.get("mimeType") or "")
        if isinstance(item.get("text"), str):
            parts.append(Text(item["text"]))
        elif media_type.startswith("image/"):
            parts.extend(
                parts_of_block(
                    {"type": "image", "mimeType": media_type, "data": item.get("blob")}
                )
            )
        else:
            parts.append(_binary("resource", item, item.get("blob")))
    content, blocks = _apart(parts)
    return ToolOutput(content, blocks=blocks)


def parts_of_block(block: Any) -> tuple[Content, ...]:
    """Convert one MCP content block. Links are named, never fetched."""
    if not isinstance(block, dict):
        return (Text(json_in_steps(block)),)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return (Text(block["text"]),)
    if kind == "image":
        return (_image(block),)
    if kind == "audio":
        return (_binary("audio", block, block.get("data")),)
    if kind == "resource_link":
        return (Text(_link(block)),)
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return (_embedded(block["resource"]),)
    return (Text(json_in_steps(block)),)


def _image(block: dict[str, Any]) -> Content:
    media_type = str(block.get("mimeType") or "")
    data = block.get("data")
    if isinstance(data, str) and media_type.startswith("image/"):
        for plain in (
            data,
            "".join(data.rpartition("base64,")[2].split()),
        ):  # as a data URL, or in lines
            if _decoded_size(plain):
                return Image(media_type, plain)
    return Text(
        f"[image ({line_for_model(media_type, 60) or 'no media type'}) that cannot be shown: its data is not valid]"
    )


def _embedded(resource: dict[str, Any]) -> Content:
    if isinstance(resource.get("text"), str):
        return Text(
            f"[resource {line_for_model(str(resource.get('uri')), 200)}]\n{set_apart(for_model(resource['text']))}"
        )
    return _binary("resource", resource, resource.get("blob"))


def _binary(what: str, block: dict[str, Any], data: Any) -> Content:
    """Return data other than images: a block, or a text if it cannot be decoded."""
    address, media_type = (_field(block.get(key), 200) for key in ("uri", "mimeType"))
    # some write it in lines
    plain = ""
    if isinstance(data, str):
        plain = "".join(data.split())
    if isinstance(data, str) and _decoded_size(plain) is not None:
        return BinaryBlock(media_type or what, plain, address)
    details = [detail for detail in (address, media_type) if detail]
    return Text(f"[{what}: {', '.join((*details, 'invalid data'))}; not shown]")


def _described(block: BinaryBlock) -> str:
    """Describe content that is not shown in one line: its kind, address, type and size."""
    what = "resource"
    if block.media_type.startswith("audio"):
        what = "audio"
    details = [
        detail
        for detail in (block.address, block.media_type)
        if detail and detail != what
    ]
    return f"[{what}: {', '.join((*details, f'{_decoded_size(block.data)} bytes'))}; not shown]"


def _link(block: dict[str, Any]) -> str:
    name, uri = (
        _field(block.get("name"), 100),
        line_for_model(str(block.get("uri") or ""), 500).translate(_ESCAPED),
    )
    media_type = ""
    if block.get("mimeType"):
        media_type = f" ({_field(block['mimeType'], 60)})"
    about = ""
    if block.get("description"):
        about = f": {_field(block['description'], 300)}"
    return f"[resource link: {name} <{uri}>{media_type}{about}]"


def _field(value: Any, limit: int) -> str:
    """Return a server's words inside brackets, which they cannot close."""
    return line_for_model(str(value or ""), limit).translate(_ROUND)


def _decoded_size(data: str) -> int | None:
    try:
        return len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None


def _joined(parts: Sequence[Text | Image]) -> tuple[Text | Image, ...]:
    """Merge neighbouring texts, one per line."""
    joined: list[Text | Image] = []
    for part in parts:
        last = None
        if joined:
            last = joined[-1]
        if isinstance(part, Text) and isinstance(last, Text):
            joined[-1] = Text(f"{last.text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)
