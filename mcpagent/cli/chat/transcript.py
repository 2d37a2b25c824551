"""A conversation as a file: JSON that can be read again, Markdown and HTML for people; secrets of servers left out."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, Literal

from mcpagent import Agent
from mcpagent.cli.frame.configuration import Configuration
from mcpagent.mcp.redaction import Redactor
from mcpagent.messages import (
    Image,
    ProviderBlock,
    Text,
    ToolCall,
    ToolResult,
    ToolsChanged,
    dump_messages,
    load_messages,
)
from mcpagent.models.provider_run.provider_calls import Ran, ran_at
from mcpagent.text.for_model import fenced
from mcpagent.text.safe_text import safe_line, safe_text
from mcpagent.text.secret_shapes import redacted

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
        """The agent's conversation as it is now."""
        secrets = [Redactor(server) for server in configuration.servers.servers]
        usage = agent.spent.usage

        def hide(text: str) -> str:
            return reduce(lambda shown, redact: redact(shown), secrets, text)

        return cls(
            agent.model.name,
            now,
            tuple(agent.servers),
            hide(agent.system),
            {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": agent.spent.dollars if agent.spent.cost_known else None,
            },
            redacted(dump_messages(agent.messages), hide),
        )


def as_json(transcript: Transcript) -> str:
    """`messages` is what `Agent.ask_with_history` and `load_messages` take."""
    document = {"schema": SCHEMA, **asdict(transcript), "saved": transcript.saved.isoformat(timespec="seconds")}
    return json.dumps(document, indent=1) + "\n"


def as_markdown(transcript: Transcript) -> str:
    """Questions and answers as they were written, calls and results as code blocks."""
    lines = [f"# Conversation with {_code(safe_line(transcript.model))}", "", _facts(transcript), ""]
    for item in _items(transcript):
        match item.kind:
            case "question" | "answer":
                lines += [f"## {item.kind.capitalize()}", "", item.text, ""]
            case "call" | "result":
                language = "json" if item.kind == "call" else ""
                lines += [f"**{_code(item.name)}** {item.how}", "", fenced(item.text, language=language), ""]
            case _:
                lines += [f"*({item.how})*", ""]
    return "\n".join(lines).rstrip() + "\n"


def as_html(transcript: Transcript) -> str:
    """One file without scripts or anything from elsewhere; calls and results are folded."""
    body: list[str] = []
    for item in _items(transcript):
        name, how, text = html.escape(item.name), html.escape(item.how), html.escape(item.text)
        match item.kind:
            case "question" | "answer":
                body.append(f'<section class="{item.kind}"><pre>{text}</pre></section>')
            case "call" | "result":
                body.append(f"<details><summary><b>{name}</b> {how}</summary><pre>{text}</pre></details>")
            case "image" if item.name in _IMAGE_TYPES and _BASE64.fullmatch(item.text):
                body.append(f'<img alt="an image" src="data:{name};base64,{text}">')
            case _:
                body.append(f'<p class="note">{how}</p>')
    title = f"Conversation with {html.escape(safe_line(transcript.model))}"
    page = Path(__file__).with_suffix(".html").read_text("utf-8")
    page = page.replace("<!-- title -->", title).replace("<!-- facts -->", html.escape(_facts(transcript)))
    return page.replace("<!-- body -->", "\n".join(body))


FORMATS: Mapping[str, Callable[[Transcript], str]] = {"md": as_markdown, "json": as_json, "html": as_html}


def _code(name: str) -> str:
    """In Markdown: a name as it is, and no markup, link or picture."""
    return f"`{name.replace('`', ' ')}`"


def _facts(transcript: Transcript) -> str:
    servers = ", ".join(safe_line(name, 64) for name in transcript.servers) or "none"
    return f"{transcript.saved:%Y-%m-%d %H:%M} UTC. Servers: {servers}."


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of a message for people: of an image `name` is its type and `text` its data, else all is printable."""

    kind: Literal["question", "answer", "call", "result", "image", "note"]
    text: str = ""
    name: str = ""
    how: str = ""


def _items(transcript: Transcript) -> Iterator[_Item]:
    for message in load_messages(transcript.messages):
        ran = ran_at(message.parts)
        for place, part in enumerate(message.parts):
            match part:
                case ProviderBlock() if place in ran:
                    yield from _ran(ran[place])
                case Text(text=text) if text.strip():
                    yield _Item("question" if message.role == "user" else "answer", safe_text(text).strip())
                case Image(media_type=media_type, data=data):
                    yield _Item("image", data, media_type, f"an image, {safe_line(media_type, 60)}")
                case ToolCall(name=name):
                    arguments = part.malformed or json.dumps(part.arguments, indent=1, ensure_ascii=False, default=str)
                    yield _Item("call", safe_text(arguments), safe_line(name, 120), "called with")
                case ToolResult(name=name):
                    how = f"failed: {part.error}" if part.error else f"gave {len(part.text):,} characters"
                    yield _Item("result", _result(part), safe_line(name, 120), how)
                case ToolsChanged(added=added) if added:
                    names = ", ".join(safe_line(tool.name, 80) for tool in added)
                    yield _Item("note", how=f"tools added: {names}")
        for one in message.citations:
            yield _Item("note", how=f"source: {safe_line(one.title, 120)} {safe_line(one.url, 300)}".rstrip())


def _ran(ran: Ran) -> Iterator[_Item]:
    """A call that the provider ran, and what came of it."""
    name = safe_line(f"{ran.call.server}.{ran.call.name}" if ran.call.server else ran.call.name, 120)
    asked = json.dumps(ran.call.input, indent=1, ensure_ascii=False, default=str)
    yield _Item("call", safe_text(asked), name, "called by the provider with")
    if ran.outcome is not None:
        text = safe_text(ran.text or ran.outcome)
        yield _Item("result", text[:MAX_RESULT], name, f"{'failed' if ran.failed else 'gave'}: {ran.outcome}")


def _result(result: ToolResult) -> str:
    text = safe_text(result.text)
    images = sum(isinstance(part, Image) for part in result.content)
    cut = f"\n[{len(text) - MAX_RESULT:,} more characters]" if len(text) > MAX_RESULT else ""
    return text[:MAX_RESULT] + cut + (f"\n[{images} image(s)]" if images else "")


_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
