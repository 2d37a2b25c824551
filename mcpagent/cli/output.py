"""`--output json` and `stream-json`: what happened as JSON documents, with the names that other agents' parsers know.

Every document has `type`, the first one of a run also `schema`; `event_schema.py` declares the rest.
Text is ASCII-escaped, so that any locale can carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from mcpagent.cli.event_schema import SCHEMA
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.stdout import json_text
from mcpagent.cli.structured import MisfitError
from mcpagent.errors import ConfigError, CredentialsError, InputError, LimitError, ModelError, ServerError
from mcpagent.events import (
    Event,
    Notice,
    RequestSent,
    ResponseReceived,
    RunFinished,
    ServerFailed,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
    ToolsLoaded,
    ToolsRemoved,
    ToolsSearched,
)
from mcpagent.messages import Image, Spent, Text, ToolResult, Usage

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.approvals import Denial
    from mcpagent.cli.estimate import Estimate
    from mcpagent.mcp.status import ServerStatus

Document = dict[str, Any]
Write = Callable[[str], None]


class JsonReport:
    """Follows one run. `streaming`: each event is written as a line as it happens; else only the result at the end."""

    def __init__(self, write: Write, *, streaming: bool) -> None:
        self._write = write
        self._streaming = streaming
        self._first = True
        self._started = False
        self._waiting: list[Document] = []
        self._words: list[str] = []
        self._sent_max = 0
        self._last_request: RequestSent | None = None
        self._about_agent: Document = {}
        self._tokens: Callable[[Iterable[str]], int] = lambda _names: 0

    def ask(self, agent: Agent, prompt: str) -> None:
        """Writes the question; before the first one `init`, and what happened before that was known."""
        if not self._started:
            self._start(agent)
        self._tell({"type": "message", "role": "user", "content": prompt})

    def _start(self, agent: Agent) -> None:
        self._started = True
        self._look_at(agent)
        self._tell(
            {
                "type": "init",
                "model": agent.model.name,
                "tool_search": agent.catalog.searching,
                "tools": {"known": len(agent.known_tools), "offered": [tool.name for tool in agent.offered_tools()]},
                "servers": servers_document(agent.servers),
            }
        )
        for document in self._waiting:
            self._tell(document)

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._words.append(text)
            case RequestSent():
                self._last_request = event
                self._sent_max = max(self._sent_max, len(event.offered))
        for document in self._documents(event):
            if self._started:
                self._tell(document)
            else:
                self._waiting.append(document)

    def finish(
        self, agent: Agent, finished: RunFinished, denials: Sequence[Denial] = (), structured: Any = None
    ) -> None:
        """Writes the result of a run that gave an answer; `structured` is the document it holds, if one was wanted."""
        self._look_at(agent)
        self._write_result(
            {
                "type": "result",
                "subtype": "success" if finished.stop == "answered" else f"stopped_{finished.stop}",
                "is_error": finished.stop != "answered",
                "result": finished.answer,
                "stop_reason": finished.stop,
                "num_turns": finished.turns,
                "duration_ms": _milliseconds(finished.seconds),
                **self._figures(finished.spent, denials),
                **({"structured": structured} if structured is not None else {}),
            }
        )

    def estimated(self, estimate: Estimate) -> None:
        """Writes what a request would be that was not made."""
        self._write_document(
            {
                "type": "estimate",
                "model": estimate.model,
                "input_tokens": estimate.total,
                "input_tokens_with_every_tool": estimate.with_every_tool,
                "tools_offered": list(estimate.offered),
                "tools_known": estimate.known_tools,
                "cost_usd": estimate.dollars,
            }
        )

    def fail(
        self, error: BaseException, code: ExitCode, agent: Agent | None = None, denials: Sequence[Denial] = ()
    ) -> None:
        """Writes the result of a run that gave none."""
        document: Document = {
            "type": "result",
            "subtype": "error",
            "is_error": True,
            "result": None,
            "error": {"kind": _kind(error), "message": _ENDED.get(type(error)) or str(error), "exit_code": int(code)},
        }
        if agent is not None and self._started:
            turns = self._last_request.turn if self._last_request is not None else 0
            document |= {"num_turns": turns, **self._figures(agent.spent, denials)}
        self._write_result(document)

    def _look_at(self, agent: Agent) -> None:
        """Keeps what can be asked only while the agent is open."""
        self._tokens = agent.catalog.tokens
        self._about_agent = {
            "model": agent.model.name,
            "known": len(agent.known_tools),
            "servers": servers_document(agent.servers),
        }

    def _figures(self, spent: Spent, denials: Sequence[Denial]) -> Document:
        last = self._last_request
        return {
            "model": self._about_agent["model"],
            "session_id": None,
            "usage": usage_document(spent.usage),
            "cost_usd": round(spent.dollars, 6) if spent.cost_known else None,
            "cost_known": spent.cost_known,
            "tools": {
                "total": self._about_agent["known"],
                "sent_max": self._sent_max,
                "schema_tokens_full": last.known_tokens if last else None,
                "schema_tokens_sent": last.offered_tokens if last else None,
            },
            "denials": [denial_document(denial) for denial in denials],
            "servers": self._about_agent["servers"],
        }

    def _documents(self, event: Event) -> list[Document]:
        match event:
            case RequestSent():
                return [context_document(event)]
            case ResponseReceived(usage=usage):
                words, self._words = "".join(self._words), []
                return [{"type": "message", "role": "assistant", "content": words, "usage": usage_document(usage)}]
            case ToolsSearched():
                return [search_document(event, self._tokens(event.matches))]
            case _:
                document = event_document(event)
                return [document] if document is not None else []

    def _tell(self, document: Document) -> None:
        if self._streaming:
            self._write_document(document)

    def _write_result(self, document: Document) -> None:
        if self._streaming and not self._started:
            for waiting in self._waiting:
                self._write_document(waiting)
        self._write_document(document)

    def _write_document(self, document: Document) -> None:
        if self._first:
            document = {"type": document["type"], "schema": SCHEMA, **document}
            self._first = False
        self._write(json_text(document) + "\n")


def event_document(event: Event) -> Document | None:
    """One event as a document, None for those that have none."""
    match event:
        case ToolCallStarted(call=call, server=server):
            return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments, "server": server}
        case ToolCallFinished(call=call, result=result, server=server):
            return _result_document(call.name, result, server)
        case ToolProgress(progress=progress) if isfinite(progress):
            return {"type": "tool_progress", **asdict(event)}
        case ToolsLoaded(names=names, tokens=tokens):
            return {"type": "tools_loaded", "names": list(names), "tokens": tokens}
        case ToolsRemoved(names=names):
            return {"type": "tools_removed", "names": list(names)}
        case ServerFailed(server=server, reason=reason):
            return {"type": "error", "kind": "server", "server": server, "message": reason, "fatal": False}
        case Notice(text=text, level=level):
            return {"type": "notice", "level": level, "message": text}
        case _:
            return None


def search_document(event: ToolsSearched, tokens: int) -> Document:
    """One search; `tokens` estimates the definitions of the tools it showed."""
    return {
        "type": "tool_search",
        "query": event.query,
        "matches": list(event.matches),
        "found": event.found,
        "known": event.known,
        "tokens": tokens,
        "duration_ms": _milliseconds(event.seconds),
    }


def context_document(event: RequestSent) -> Document:
    """What one request offers, against offering everything; tokens are estimated as characters / 4."""
    return {
        "type": "context",
        "turn": event.turn,
        "tools_offered": list(event.offered),
        "tools_known": event.known_tools,
        "schema_tokens_sent": event.offered_tokens,
        "schema_tokens_full": event.known_tokens,
    }


def denial_document(denial: Denial) -> Document:
    """A call that was not run; `allow` is the flag that would have let it run, None where none would."""
    call = denial.call
    return {
        "tool_use_id": call.call_id,
        "name": call.tool,
        "server": call.server,
        "input": call.arguments,
        "reason": denial.reason,
        "allow": denial.mend or None,
    }


def usage_document(usage: Usage) -> Document:
    return asdict(usage)


def servers_document(servers: Mapping[str, ServerStatus]) -> Document:
    return {
        name: {
            "state": status.state,
            "tools": status.tool_count,
            "seconds": round(status.seconds, 3),
            **({"reason": status.reason} if status.reason else {}),
        }
        for name, status in servers.items()
    }


def content_document(content: Sequence[Text | Image]) -> list[Document]:
    """What a tool gave."""
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image", "media_type": part.media_type, "data": part.data}
        for part in content
    ]


def _result_document(name: str, result: ToolResult, server: str | None) -> Document:
    return {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "name": name,
        "server": server,
        "is_error": result.error is not None,
        "error": result.error,
        "content": content_document(result.content),
        "duration_ms": _milliseconds(result.seconds),
    }


_ENDED: Mapping[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted by Ctrl-C",
    SystemExit: "ended by a signal; everything was closed first",
}


def _kind(error: BaseException) -> str:
    kinds: list[tuple[type[BaseException], str]] = [
        (CredentialsError, "credentials"),
        (ConfigError, "config"),
        (InputError, "input"),
        (ModelError, "model"),
        (ServerError, "server"),
        (LimitError, "limit"),
        (MisfitError, "answer"),
        (TimeoutError, "timeout"),
        (KeyboardInterrupt, "interrupted"),
        (SystemExit, "terminated"),
    ]
    return next((name for kind, name in kinds if isinstance(error, kind)), "internal")


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1_000)
