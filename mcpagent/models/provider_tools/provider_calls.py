"""Read calls that a provider ran, for events, and as text for other models.

One reader handles Anthropic's blocks and OpenAI's items, whose types differ. Malformed ones are ignored here; the
history still returns them to their provider unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mcpagent.models.wire_values import json_text, parse_object
from mcpagent.utilities.text.for_model import cut_for_model, fenced, line_for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    Event,
    ProviderCall,
    ProviderCallFinished,
    ProviderCallStarted,
)
from mcpagent.values.messages import Message, Part, ProviderBlock

MAX_TOLD = 4_000
"""Maximum number of characters of a provider tool's result that another model gets."""

MAX_OUTCOME = 120

NONE_WAITING: Mapping[str, ProviderCall] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProviderResult:
    """A call that the provider ran, with its result: `outcome` is a short description, None if there is no result yet;
    `text` is the whole result.
    """

    call: ProviderCall
    outcome: str | None = None
    failed: bool = False
    text: str = ""

    @property
    def events(self) -> tuple[ProviderCallStarted, ProviderCallFinished | None]:
        """The events of the call."""
        if self.outcome is None:
            ended = None
        else:
            ended = ProviderCallFinished(self.call, self.outcome, self.failed)
        return ProviderCallStarted(self.call), ended


def asked_in(block: Mapping[str, Any]) -> ProviderCall | None:
    """Return the call of a provider tool that a block of an answer contains; None if it contains none."""
    call_id, name = str(block.get("id") or ""), _text(block.get("name"))
    match block.get("type"):
        case "server_tool_use" if not name.startswith("tool_search_tool"):
            return ProviderCall(call_id, name, _object(block.get("input")))
        case "mcp_tool_use":
            return ProviderCall(
                call_id,
                name,
                _object(block.get("input")),
                _text(block.get("server_name")),
            )
        case "web_search_call":
            return ProviderCall(call_id, "web_search", _action(block.get("action")))
        case "file_search_call":
            return ProviderCall(
                call_id, "file_search", {"queries": block.get("queries")}
            )
        case "code_interpreter_call":
            return ProviderCall(
                call_id, "code_execution", {"code": block.get("code") or ""}
            )
        case "image_generation_call":
            prompt = block.get("revised_prompt")
            return ProviderCall(
                call_id, "image_generation", {"prompt": prompt} if prompt else {}
            )
        case "mcp_call":
            arguments = parse_object(_text(block.get("arguments")))
            return ProviderCall(
                call_id, name, arguments or {}, _text(block.get("server_label"))
            )
        case _:
            return None


def _action(action: object) -> dict[str, Any]:
    """Return the action of a search at OpenAI, without its results."""
    if not isinstance(action, Mapping):
        return {}
    return {
        name: action[name]
        for name in ("query", "queries", "url", "pattern")
        if action.get(name)
    }


def ended_in(
    block: Mapping[str, Any], calls: Mapping[str, ProviderCall]
) -> ProviderResult | None:
    """Return the provider's call whose result is in this block, with the result, or None.

    `calls` are the earlier calls by ID.
    """
    kind, content = _text(block.get("type")), block.get("content")
    if (call := calls.get(str(block.get("tool_use_id")))) is not None and kind.endswith(
        "_tool_result"
    ):
        if kind == "mcp_tool_result":
            text = _texts(content)
            failed = block.get("is_error") is True
            return _ran(call, _first_line(text) or "no words", text, failed=failed)
        return _of_claude(call, content)
    own = asked_in(block)
    if own is None or kind in ("server_tool_use", "mcp_tool_use"):
        return None
    return _of_gpt(own, block)


def _ran(
    call: ProviderCall, outcome: str, text: str = "", *, failed: bool = False
) -> ProviderResult:
    return ProviderResult(call, safe_line(outcome, MAX_OUTCOME), failed, text)


def _of_claude(call: ProviderCall, content: object) -> ProviderResult:
    if isinstance(content, list):
        pages = [page for page in content if isinstance(page, Mapping)]
        lines = (
            f"{_text(page.get('title'))} {_text(page.get('url'))}".strip()
            for page in pages
        )
        return _ran(call, _counted(len(pages), "result"), "\n".join(lines))
    found = content if isinstance(content, Mapping) else {}
    if code := found.get("error_code"):
        if found.get("error_message"):
            why = f"{code}: {found['error_message']}"
        else:
            why = str(code)
        return _ran(call, why, why, failed=True)
    match found.get("type"):
        case "web_fetch_result":
            page = _mapping(found.get("content"))
            source = _mapping(page.get("source"))
            data = ""
            if source.get("type") == "text":
                data = _text(source.get("data"))
            return _ran(
                call,
                _text(page.get("title")) or _text(found.get("url")) or "read",
                data,
            )
        case _ if "return_code" in found:
            out, err = _text(found.get("stdout")), _text(found.get("stderr"))
            text = "\n".join(filter(None, (out, err)))
            code = found.get("return_code")
            return _ran(call, _with_line(f"exit {code}", text), text, failed=code != 0)
        case _:
            text = _texts(found.get("content")) or _text(found.get("content"))
            return _ran(call, _first_line(text) or "done", text)


def _of_gpt(call: ProviderCall, item: Mapping[str, Any]) -> ProviderResult:
    status = _text(item.get("status"))
    error = item.get("error")
    if error:
        why = _text(error) or _text(_mapping(error).get("message")) or json_text(error)
        return _ran(call, why, why, failed=True)
    if status in ("failed", "incomplete"):
        return _ran(call, status, failed=True)
    if status != "completed" and item.get("output") is None:
        return ProviderResult(call)
    match item.get("type"):
        case "web_search_call":
            sources = [
                one
                for one in _list(_mapping(item.get("action")).get("sources"))
                if isinstance(one, Mapping)
            ]
            urls = [_text(one.get("url")) for one in sources]
            return _ran(
                call, _counted(len(urls), "source") if urls else "done", "\n".join(urls)
            )
        case "file_search_call":
            found = [
                one for one in _list(item.get("results")) if isinstance(one, Mapping)
            ]
            lines = (
                f"{_text(one.get('filename'))}: {_text(one.get('text'))}"
                for one in found
            )
            return _ran(
                call,
                _counted(len(found), "result") if found else "done",
                "\n".join(lines),
            )
        case "code_interpreter_call":
            outputs = [_mapping(one) for one in _list(item.get("outputs"))]
            text = "\n".join(filter(None, (_text(one.get("logs")) for one in outputs)))
            return _ran(call, _with_line("done", text), text)
        case "image_generation_call":
            return _ran(call, "an image")
        case _:
            text = _text(item.get("output"))
            return _ran(call, _first_line(text) or "done", text)


def ran_at(
    parts: Iterable[Part], waiting: Mapping[str, ProviderCall] = NONE_WAITING
) -> dict[int, ProviderResult]:
    """Return the provider's calls in an answer with their results, by the index of the call's part.

    The result of a call that was `waiting` since the previous answer (see `calls_to_come`) is at its own index.
    """
    calls, places = dict(waiting), dict[str, int]()
    found: dict[int, ProviderResult] = {}
    for place, part in enumerate(parts):
        if not isinstance(part, ProviderBlock):
            continue
        if (ended := ended_in(part.data, calls)) is not None:
            found[places.get(ended.call.id, place)] = ended
        elif (call := asked_in(part.data)) is not None:
            calls[call.id], places[call.id], found[place] = (
                call,
                place,
                ProviderResult(call),
            )
    return found


def ran_in(
    parts: Iterable[Part], waiting: Mapping[str, ProviderCall] = NONE_WAITING
) -> list[ProviderResult]:
    """Return the provider's calls in an answer, in order."""
    return [
        ran for _, ran in sorted(ran_at(parts, waiting).items(), key=lambda one: one[0])
    ]


def calls_to_come(answer: Message | None) -> dict[str, ProviderCall]:
    """Return the calls of an answer that have no result yet, by ID.

    Anthropic runs such a call when the client's calls next to it have their results; its own result is in the next
    answer.
    """
    if answer is not None:
        parts = answer.parts
    else:
        parts = ()
    return {
        ran.call.id: ran.call
        for ran in ran_in(parts)
        if ran.outcome is None and ran.call.id
    }


def call_events(
    message: Message,
    told: Mapping[str, bool],
    waiting: Mapping[str, ProviderCall] = NONE_WAITING,
) -> Iterator[Event]:
    """Yield the events of an answer's calls, except events already emitted.

    `told` maps the ID of each reported call to whether its end was reported, too. The starts of `waiting` calls were
    reported with the previous answer.
    """
    for ran in ran_in(message.parts, waiting):
        started, ended = ran.events
        if (ran.call.id not in told and ran.call.id not in waiting) or not ran.call.id:
            yield started
        if ended is not None and not told.get(ran.call.id):
            yield ended


def ran_unpriced(message: Message) -> bool:
    """Return whether the provider ran something that the price table lacks: code in a container, file search, an
    image.
    """
    kinds = ("code_execution", "file_search", "image_generation")
    return any(
        ran.call.server is None and ran.call.name.endswith(kinds)
        for ran in ran_in(message.parts)
    )


def containers_of(message: Message) -> frozenset[str]:
    """Return the IDs of the containers that OpenAI's items in this answer use."""
    blocks = (part.data for part in message.parts if isinstance(part, ProviderBlock))
    return frozenset(
        _text(block.get("container_id"))
        for block in blocks
        if block.get("type") == "code_interpreter_call"
    )


def in_words(
    parts: Sequence[Part], waiting: Mapping[str, ProviderCall] = NONE_WAITING
) -> dict[int, str]:
    """Return a text about each call for another model, by index as in `ran_at`: the query and its result.

    Calls without a result have no text.
    """
    ran = ran_at(parts, waiting).items()
    return {
        place: _in_words(one, one.outcome)
        for place, one in ran
        if one.outcome is not None
    }


def _in_words(ran: ProviderResult, outcome: str) -> str:
    asked = line_for_model(json_text(ran.call.input), 300)
    if ran.call.server:
        who = f"{ran.call.server}: {ran.call.name}"
    else:
        who = ran.call.name
    how = "gave"
    if ran.failed:
        how = "failed"
    head = f"[{line_for_model(who, 80)} {asked} {how}: {line_for_model(outcome, 160)}]"
    text = cut_for_model(ran.text.strip(), MAX_TOLD)
    is_told = not text or text == outcome
    if is_told:
        return f"{head}\n"
    return f"{head}\n{fenced(text)}\n"


# -- Items of a request ------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return ""


def _mapping(value: object) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return {}


def _list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    return []


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    return {}


def _texts(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_text(_mapping(piece).get("text")) for piece in _list(content))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _with_line(what: str, text: str) -> str:
    line = _first_line(text)
    if line:
        return f"{what}: {line}"
    return what


def _counted(count: int, what: str) -> str:
    if count == 1:
        return f"{count} {what}"
    return f"{count} {what}s"
