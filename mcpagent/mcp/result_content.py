"""Convert results of MCP servers to content for a model: texts, files, and descriptions of links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpagent.history.intake.file_descriptions import bracketed
from mcpagent.utilities.python.worker_threads import json_in_steps
from mcpagent.utilities.text.for_model import (
    fenced,
    for_model,
    line_for_model,
    set_apart,
)
from mcpagent.values.messages import Audio, Content, Document, Image, Text
from mcpagent.values.tools import ToolOutput

_ESCAPED = str.maketrans({"<": "%3C", ">": "%3E", " ": "%20"})
"""Characters that RFC 3986 does not allow in a URI, and their escapes."""


def output_of_call(result: dict[str, Any]) -> ToolOutput:
    """Convert a `tools/call` result. Structured content becomes JSON text if the result has no text."""
    content: tuple[Content, ...] = ()
    for block in result.get("content") or ():
        content += parts_of_block(block)
    structured = result.get("structuredContent")
    if structured is not None and not any(
        isinstance(part, Text) and part.text.strip() for part in content
    ):
        content += (Text(json_in_steps(structured)),)
    if not says_true(result.get("isError")):
        return ToolOutput(content, structured=structured)
    return ToolOutput(
        content or (Text("the tool failed and did not say why"),), "failed"
    )


def says_true(value: Any) -> bool:
    """Return whether a flag is true; some servers write it as text."""
    return value not in (None, "", 0) and str(value).lower() not in ("false", "0", "no")


def output_of_prompt(result: dict[str, Any]) -> ToolOutput:
    """Return the output for a `prompts/get` result: its messages one after the other, each after its role."""
    parts: list[Content] = []
    for message in result.get("messages") or ():
        parts.append(Text(f"[{line_for_model(str(message.get('role')), 20)}]"))
        parts.extend(map(_said, parts_of_block(message.get("content"))))
    return ToolOutput(_joined(parts))


def _said(part: Content) -> Content:
    """Return content that follows a role; text that could imitate another role is fenced."""
    if not isinstance(part, Text):
        return part
    return Text(
        fenced(for_model(part.text))
        if part.text.lstrip().startswith("[")
        else set_apart(for_model(part.text))
    )


def output_of_resource(result: dict[str, Any]) -> ToolOutput:
    """Return the output for a `resources/read` result: the text of its contents, and files."""
    parts: list[Content] = []
    for item in result.get("contents") or ():
        media_type = str(item.get("mimeType") or "")
        if isinstance(item.get("text"), str):
            parts.append(Text(item["text"]))
        else:
            parts.append(
                _file("resource", media_type, item.get("blob"), item.get("uri"))
            )
    return ToolOutput(tuple(parts))


def parts_of_block(block: Any) -> tuple[Content, ...]:
    """Convert one MCP content block. Links are described, never fetched."""
    if not isinstance(block, dict):
        return (Text(json_in_steps(block)),)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return (Text(block["text"]),)
    if kind in ("image", "audio"):
        return (_file(kind, str(block.get("mimeType") or ""), block.get("data")),)
    if kind == "resource_link":
        return (Text(_link(block)),)
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return (_embedded(block["resource"]),)
    return (Text(json_in_steps(block)),)


def _embedded(resource: dict[str, Any]) -> Content:
    if isinstance(resource.get("text"), str):
        return Text(
            f"[resource {line_for_model(str(resource.get('uri')), 200)}]\n{set_apart(for_model(resource['text']))}"
        )
    return _file(
        "resource",
        str(resource.get("mimeType") or ""),
        resource.get("blob"),
        resource.get("uri"),
    )


def _file(kind: str, media_type: str, data: Any, address: Any = None) -> Content:
    """Return a file in a result as a content part; if it has no data, a text about it.

    Its type and data are not checked here: `history/intake` checks the bytes of all content.
    """
    if address is None:
        name = ""
    else:
        name = str(address)
    if not isinstance(data, str):
        details = [
            detail
            for detail in (bracketed(name, 200), bracketed(media_type, 200))
            if detail
        ]
        return Text(f"[{kind}: {', '.join((*details, 'without data'))}; not shown]")
    if kind == "image" or media_type.startswith("image/"):
        return Image(media_type, data)
    if kind == "audio" or media_type.startswith("audio/"):
        return Audio(media_type or "audio", data, name)
    return Document(media_type or "application/octet-stream", data, name)


def _link(block: dict[str, Any]) -> str:
    name, uri = (
        bracketed(str(block.get("name") or ""), 100),
        line_for_model(str(block.get("uri") or ""), 500).translate(_ESCAPED),
    )
    media_type = ""
    if block.get("mimeType"):
        media_type = f" ({bracketed(str(block['mimeType']), 60)})"
    about = ""
    if block.get("description"):
        about = f": {bracketed(str(block['description']), 300)}"
    return f"[resource link: {name} <{uri}>{media_type}{about}]"


def _joined(parts: Sequence[Content]) -> tuple[Content, ...]:
    """Merge adjacent texts, separated by line breaks."""
    joined: list[Content] = []
    for part in parts:
        last = None
        if joined:
            last = joined[-1]
        if isinstance(part, Text) and isinstance(last, Text):
            joined[-1] = Text(f"{last.text}\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)
