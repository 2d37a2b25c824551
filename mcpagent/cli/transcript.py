"""A conversation as a file: JSON that can be read again, Markdown and HTML for people; secrets of servers left out."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mcpagent.mcp.redaction import Redactor
from mcpagent.messages import Image, Message, Text, ToolCall, ToolResult, ToolsChanged, dump_messages
from mcpagent.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.configuration import Configuration

SCHEMA = "mcpagent.conversation/1"
MAX_RESULT = 20_000
"""Characters of one result in a file for people; the JSON has all of it."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a file is made of. `messages` is what `dump_messages` gives, without the secrets of the configuration."""

    model: str
    saved: datetime
    servers: tuple[str, ...]
    system: str
    usage: Mapping[str, Any]
    messages: list[dict[str, Any]]

    @classmethod
    def of(cls, agent: Agent, configuration: Configuration, now: datetime) -> Transcript:
        hide = [Redactor(server) for server in configuration.servers.servers]
        usage = agent.spent.usage
        return cls(
            agent.model.name,
            now,
            tuple(agent.servers),
            _redacted(agent.system, hide),
            {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": agent.spent.dollars if agent.spent.cost_known else None,
            },
            _redacted(dump_messages(agent.messages), hide),
        )

    def read(self) -> Sequence[Message]:
        from mcpagent.messages import load_messages

        return load_messages(self.messages)


def as_json(transcript: Transcript) -> str:
    """`messages` is what `Agent.ask_with_history` and `load_messages` take."""
    document = {
        "schema": SCHEMA,
        "model": transcript.model,
        "saved": transcript.saved.isoformat(timespec="seconds"),
        "servers": list(transcript.servers),
        "usage": transcript.usage,
        "system": transcript.system,
        "messages": transcript.messages,
    }
    return json.dumps(document, indent=1) + "\n"


def as_markdown(transcript: Transcript) -> str:
    lines = [f"# Conversation with {safe_line(transcript.model)}", "", _facts(transcript), ""]
    for message in transcript.read():
        for part in message.parts:
            lines += _markdown_part(message, part)
    return "\n".join(lines).rstrip() + "\n"


def as_html(transcript: Transcript) -> str:
    """One file without scripts or anything from elsewhere; calls and results are folded."""
    body = [_html_part(message, part) for message in transcript.read() for part in message.parts]
    title = f"Conversation with {html.escape(safe_line(transcript.model))}"
    return _PAGE.format(title=title, facts=html.escape(_facts(transcript)), body="\n".join(filter(None, body)))


FORMATS: Mapping[str, Callable[[Transcript], str]] = {"md": as_markdown, "json": as_json, "html": as_html}


def _facts(transcript: Transcript) -> str:
    servers = ", ".join(safe_line(name, 64) for name in transcript.servers) or "none"
    return f"{transcript.saved:%Y-%m-%d %H:%M} UTC. Servers: {servers}."


def _markdown_part(message: Message, part: object) -> list[str]:
    match part:
        case Text(text=text) if text.strip():
            words = safe_text(text).strip()
            if message.role == "user":
                return ["## Question", "", words, ""]
            return ["## Answer", "", words, ""]
        case Image(media_type=media_type):
            return [f"*(an image, {safe_line(media_type, 60)})*", ""]
        case ToolCall():
            return [f"**{safe_line(part.name, 120)}** called with", "", _fenced(_arguments(part), "json"), ""]
        case ToolResult():
            how = f"failed ({part.error})" if part.error else "gave"
            return [f"**{safe_line(part.name, 120)}** {how}", "", _fenced(_result(part)), ""]
        case ToolsChanged(added=added) if added:
            return [f"*tools added: {', '.join(safe_line(tool.name, 80) for tool in added)}*", ""]
        case _:
            return []


def _html_part(message: Message, part: object) -> str:
    match part:
        case Text(text=text) if text.strip():
            kind = "question" if message.role == "user" else "answer"
            return f'<section class="{kind}"><pre>{html.escape(safe_text(text).strip())}</pre></section>'
        case Image(media_type=media_type, data=data) if media_type in _IMAGE_TYPES and _BASE64.fullmatch(data):
            return f'<img alt="an image" src="data:{media_type};base64,{data}">'
        case ToolCall():
            return _folded(f"{safe_line(part.name, 120)}", "called", _arguments(part))
        case ToolResult():
            how = f"failed: {part.error}" if part.error else f"gave {len(part.text):,} characters"
            return _folded(safe_line(part.name, 120), how, _result(part))
        case ToolsChanged(added=added) if added:
            names = ", ".join(safe_line(tool.name, 80) for tool in added)
            return f'<p class="note">tools added: {html.escape(names)}</p>'
        case _:
            return ""


def _folded(name: str, how: str, text: str) -> str:
    summary = f"<summary><b>{html.escape(name)}</b> {html.escape(how)}</summary>"
    return f"<details>{summary}<pre>{html.escape(text)}</pre></details>"


def _arguments(call: ToolCall) -> str:
    return safe_text(call.malformed or json.dumps(call.arguments, indent=1, ensure_ascii=False, default=str))


def _result(result: ToolResult) -> str:
    text = safe_text(result.text)
    images = sum(isinstance(part, Image) for part in result.content)
    cut = f"\n[{len(text) - MAX_RESULT:,} more characters]" if len(text) > MAX_RESULT else ""
    return text[:MAX_RESULT] + cut + (f"\n[{images} image(s)]" if images else "")


def _fenced(text: str, language: str = "") -> str:
    """A code block that the text cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _redacted(value: Any, hide: Sequence[Redactor]) -> Any:
    """The same value with the secrets taken out of every string in it."""
    if isinstance(value, str):
        for redact in hide:
            value = redact(value)
        return value
    if isinstance(value, dict):
        return {key: _redacted(item, hide) for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, hide) for item in value]
    return value


_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ font: inherit; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 }}
details pre {{ font: 13px/1.4 ui-monospace, monospace; padding: .5rem }}
section, details {{ margin: 1rem 0; padding: .5rem 1rem; border-left: 3px solid #8888 }}
.question {{ border-color: #06c; font-weight: 600 }}
.note, details {{ color: #666 }}
img {{ max-width: 100% }}
</style>
<h1>{title}</h1>
<p class="note">{facts}</p>
{body}
</html>
"""
