"""`--output json` and `stream-json`: events as JSON documents, with the names that parsers of other agents know.

Every document has `type`, the first one of a run also `schema`; the other fields are in `docs/events.schema.json`. Text
is ASCII-escaped, so that any locale can carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from mcpagent.agents.agent import Agent
from mcpagent.cli.approvals.approver import Denial
from mcpagent.cli.common.exit_codes import code_of_error, kind_of_error
from mcpagent.cli.screen.terminal import portable_json
from mcpagent.values.events import (
    AnswerRestarted,
    ConversationCompacted,
    Event,
    LimitReached,
    Notice,
    ProviderCallFinished,
    ProviderCallStarted,
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
from mcpagent.values.messages import Citation, Content, Spent, Text

SCHEMA = "mcpagent.events/1"

Document = dict[str, Any]
Write = Callable[[str], None]


class JsonReport:
    """Writes the documents of one run. `streaming`: one line per event as it happens; otherwise only the result at the
    end.
    """

    def __init__(self, write: Write, *, streaming: bool) -> None:
        self._put = write
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
        """Write the prompt; before the first prompt, `init` and earlier events."""
        if not self._started:
            self._started = True
            self._look_at(agent)
            offered = [tool.name for tool in agent.offered_tools()]
            init = {
                "type": "init",
                "model": agent._runtime.model.name,
                "tool_search": agent._runtime.tools.searching,
                "tools": {"known": len(agent.known_tools), "offered": offered},
                "servers": self._about_agent["servers"],
            }
            self._stream(init, *self._waiting)
        self._stream({"type": "message", "role": "user", "content": prompt})

    def __call__(self, event: Event) -> None:
        """Process an event; events before the first prompt are written with that prompt."""
        match event:
            case TextDelta(text=text):
                self._words.append(text)
            case AnswerRestarted():
                self._words.clear()
            case RequestSent():
                self._last_request = event
                self._sent_max = max(self._sent_max, len(event.offered))
        documents = []
        if (document := self._document(event)) is not None:
            documents = [document]
        if self._started:
            self._stream(*documents)
        else:
            self._waiting += documents

    def finish(
        self,
        agent: Agent,
        finished: RunFinished,
        denials: Sequence[Denial] = (),
        *,
        denied_ok: bool = False,
    ) -> None:
        """Write the result of a run with an answer; `structured` is the requested JSON document, if any.

        A denied call makes the run unsuccessful, unless `denied_ok`.
        """
        self._look_at(agent)
        subtype = f"stopped_{finished.stop}"
        if finished.stop == "answered" and denials and not denied_ok:
            subtype = "denied"
        elif finished.stop == "answered":
            subtype = "success"
        self._write_result(
            {
                "type": "result",
                "subtype": subtype,
                "is_error": subtype != "success",
                "result": finished.answer,
                "stop_reason": finished.stop,
                "num_turns": finished.turns,
                "duration_ms": _milliseconds(finished.seconds),
                **_sources(finished.citations),
                **self._figures(finished.spent, denials),
                **({"structured": finished.output} if finished.has_output else {}),
            }
        )

    def fail(
        self,
        error: BaseException,
        agent: Agent | None = None,
        denials: Sequence[Denial] = (),
    ) -> None:
        """Write the result of a run without an answer."""
        message, code = _ENDED.get(type(error)) or str(error), code_of_error(error)
        document: Document = {
            "type": "result",
            "subtype": "error",
            "is_error": True,
            "result": None,
            "error": {
                "kind": kind_of_error(error),
                "message": message,
                "exit_code": int(code),
            },
        }
        if agent is not None and self._started:
            turns = 0
            if self._last_request is not None:
                turns = self._last_request.turn
            document |= {"num_turns": turns, **self._figures(agent.spent, denials)}
        self._write_result(document)

    def _look_at(self, agent: Agent) -> None:
        """Store the data that are available only while the agent is open."""
        self._tokens = agent._runtime.tools.tokens
        servers = {
            name: {
                "state": status.state,
                "tools": status.tool_count,
                "seconds": round(status.seconds, 3),
                **({"reason": status.reason} if status.reason else {}),
            }
            for name, status in agent.servers.items()
        }
        session = agent._runtime.own_session
        self._about_agent = {
            "model": agent._runtime.model.name,
            "known": len(agent.known_tools),
            "servers": servers,
            "session_id": session.id if session.is_kept else None,
        }

    def _figures(self, spent: Spent, denials: Sequence[Denial]) -> Document:
        last = self._last_request
        return {
            "model": self._about_agent["model"],
            "session_id": self._about_agent["session_id"],
            "usage": asdict(spent.usage),
            "estimated_tokens": spent.estimated_tokens,
            "cost_usd": round(spent.dollars, 6) if spent.cost_known else None,
            "cost_known": spent.cost_known,
            "tools": {
                "total": self._about_agent["known"],
                "sent_max": self._sent_max,
                "schema_tokens_full": last.known_tokens if last else None,
                "schema_tokens_sent": last.offered_tokens if last else None,
            },
            "denials": [
                {
                    "tool_use_id": denial.call.call_id,
                    "name": denial.call.tool,
                    "server": denial.call.server,
                    "input": denial.call.arguments,
                    "reason": denial.reason,
                    "allow": denial.flag or None,
                }
                for denial in denials
            ],
            "servers": self._about_agent["servers"],
        }

    def _document(self, event: Event) -> Document | None:
        match event:
            case ResponseReceived(usage=usage, citations=citations):
                words, self._words = "".join(self._words), []
                said = {"role": "assistant", "content": words, **_sources(citations)}
                return {"type": "message", **said, "usage": asdict(usage)}
            case ToolsSearched():
                return {
                    "type": "tool_search",
                    "query": event.query,
                    "matches": list(event.matches),
                    "found": event.found,
                    "known": event.known,
                    "tokens": self._tokens(event.matches),
                    "duration_ms": _milliseconds(event.seconds),
                    "connecting": list(event.connecting),
                }
            case ProviderCallStarted() | ProviderCallFinished():
                return _provider_document(event)
            case ConversationCompacted():
                return {"type": "compacted", **asdict(event)}
            case LimitReached():
                return {"type": "limit_reached", **asdict(event), "message": event.text}
            case _:
                return event_document(event)

    def _stream(self, *documents: Document) -> None:
        for document in documents if self._streaming else ():
            self.write(document)

    def _write_result(self, document: Document) -> None:
        if not self._started:
            self._stream(*self._waiting)
        self.write(document)

    def write(self, document: Document) -> None:
        """Write one document as a line; the first one contains the schema's name."""
        if self._first:
            document = {"type": document["type"], "schema": SCHEMA, **document}
            self._first = False
        self._put(portable_json(document) + "\n")


def event_document(event: Event) -> Document | None:
    """Return an event as a document; None for an event without a document, or one that the final `result` document
    reports.
    """
    match event:
        case RequestSent():
            return {
                "type": "context",
                "turn": event.turn,
                "tools_offered": list(event.offered),
                "tools_known": event.known_tools,
                "schema_tokens_sent": event.offered_tokens,
                "schema_tokens_full": event.known_tokens,
            }
        case AnswerRestarted(reason=reason, text=text):
            return {"type": "answer_restarted", "reason": reason, "dropped": text}
        case ToolCallStarted(call=call, server=server, parent=parent):
            use = {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": call.arguments,
                "server": server,
            }
            return use | _inside(parent)
        case ToolCallFinished(call=call, result=result, server=server, parent=parent):
            return {
                "type": "tool_result",
                "tool_use_id": result.call_id,
                "name": call.name,
                "server": server,
                "is_error": result.error is not None,
                "error": result.error,
                "content": content_document(result.content),
                "duration_ms": _milliseconds(result.seconds),
                **(
                    {"set_aside": asdict(result.set_aside)}
                    if result.set_aside is not None
                    else {}
                ),
                **_inside(parent),
            }
        case ToolProgress(progress=progress) if isfinite(progress):
            return {"type": "tool_progress", **asdict(event)}
        case ToolsLoaded(names=names, tokens=tokens):
            return {"type": "tools_loaded", "names": list(names), "tokens": tokens}
        case ToolsRemoved(names=names):
            return {"type": "tools_removed", "names": list(names)}
        case ServerFailed(server=server, reason=reason):
            return {
                "type": "error",
                "kind": "server",
                "server": server,
                "message": reason,
                "fatal": False,
            }
        case Notice(text=text, level=level):
            return {"type": "notice", "level": level, "message": text}
        case _:
            return None


def _provider_document(event: ProviderCallStarted | ProviderCallFinished) -> Document:
    call = event.call
    about = {"name": call.name, "input": call.input, "server": call.server}
    if isinstance(event, ProviderCallStarted):
        return {"type": "provider_tool_use", "id": call.id, **about}
    ended = {"is_error": event.failed, "outcome": event.outcome}
    return {"type": "provider_tool_result", "tool_use_id": call.id, **about, **ended}


def _sources(citations: Sequence[Citation]) -> Document:
    """Return the citations of an answer, or {}."""
    if citations:
        return {"citations": [asdict(one) for one in citations]}
    return {}


def content_document(content: Sequence[Content]) -> list[Document]:
    """Return a tool's content as documents."""
    documents: list[Document] = []
    for part in content:
        if isinstance(part, Text):
            documents.append({"type": "text", "text": part.text})
        else:
            fields = {name: getattr(part, name) for name in part.__dataclass_fields__}
            documents.append({"type": fields.pop("type"), **fields})
    return documents


_ENDED: Mapping[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted by Ctrl-C",
    SystemExit: "ended by a signal; everything was closed first",
}


def _inside(parent: str) -> dict[str, Any]:
    """Return the ID of the call that runs the program, for a call that a program made; otherwise {}."""
    if parent:
        return {"parent_tool_use_id": parent}
    return {}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1_000)
