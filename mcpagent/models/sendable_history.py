"""Decide which parts of an answer a target model may receive; the only place that decides it.

Texts, calls and results may go to every model. All other data of an answer (reasoning, items of provider tools, IDs,
signatures, citations) belongs to the model that wrote it, at its address, in its protocol:

- Reasoning is sent back to the same model only. Anthropic signs it for one model ("Invalid `signature` in `thinking`
  block" after a switch), OpenAI's encrypted content can be read by the model that wrote it, other servers refuse each
  other's fields.
- Results of provider tools may go to another model at the same address, except searches of mcpagent's tools: found
  tools are written in the target's own form. If OpenAI's reasoning is left out, its other items cannot stand alone
  ("provided without its required 'reasoning' item"), so only texts and calls remain.
- Anthropic binds the thoughts of some models to all preceding content: after a compaction, earlier thoughts are left
  out.
- Elsewhere, calls of provider tools become fenced plain text at their position: the query and its result. The same
  applies to calls in a container of OpenAI's that is gone, because no model accepts such an item any more.
- An Anthropic container, which an answer contains, is known at its address only.
- A tool of Anthropic's that was called together with client tools has its result in the next answer; Anthropic refuses
  a call without its result and a result without its call.
- An answer that was cut off may end in a part that a provider refuses at the end: reasoning, or a call of its own tool
  without the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from mcpagent.history.sent_messages import moved
from mcpagent.models.endpoints.model_identity import identity_of, undated
from mcpagent.models.provider_tools.provider_calls import (
    NONE_WAITING,
    calls_to_come,
    containers_of,
    in_words,
)
from mcpagent.models.provider_tools.provider_pairs import with_pairs
from mcpagent.models.wire_values import json_text
from mcpagent.values.events import ProviderCall
from mcpagent.values.messages import (
    Container,
    Message,
    Origin,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolsChanged,
    ToolsShown,
)

PROTOCOLS = {"anthropic": "messages", "openai": "responses"}
"""The API of a provider by name; providers that are not listed use Chat Completions."""

SERVER_TOOLS: Mapping[str, frozenset[str]] = {
    "messages": frozenset(
        "server_tool_use mcp_tool_use mcp_tool_result mcp_tool_listing container_upload "  # noqa: SIM905
        "web_search_tool_result web_fetch_tool_result "
        "code_execution_tool_result bash_code_execution_tool_result text_editor_code_execution_tool_result "
        "tool_search_tool_result".split()
    ),
    "responses": frozenset(
        "web_search_call file_search_call code_interpreter_call image_generation_call mcp_list_tools mcp_call "  # noqa: SIM905
        "tool_search_call tool_search_output".split()
    ),
    "chat": frozenset(),
}
"""By API: types of the blocks of tools that the provider ran. The client only returns these blocks unchanged."""

_BINDS = {"fable": (5, 1), "mythos": (5, 1), "opus": (5, 5), "sonnet": (5, 5)}
"""Families of Claude. Each has the first version whose API binds thinking blocks to the messages before them, so it
rejects thinking blocks if an earlier message has changed.
"""


def address_of(base_url: str) -> str:
    """Return host, port and path of an address, without secrets and irrelevant parts, such as the port on this machine.

    Returns "" for an invalid address.
    """
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ""
    host = parts.hostname or ""
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    return (
        "localhost" if is_here else parts.netloc.rpartition("@")[2].lower()
    ) + parts.path.rstrip("/")


def written_for(
    messages: Sequence[Message],
    to: Origin,
    *,
    searches: bool = True,
    refused: Collection[str] = (),
    gone: Collection[str] = (),
    servers: Collection[str] = (),
) -> tuple[Message, ...]:
    """Return the history as it may be sent to a model: the same number of messages, in order.

    `origin` stays on messages from the target's address; a complete answer of the same model stays unchanged.
    `searches`: the target's provider searches deferred tools itself. `refused` has the `thought_key` of reasoning that
    it refused; `gone` has the IDs of expired containers. `servers` are the MCP servers that Anthropic calls in this
    request: it refuses call blocks of other servers.
    """
    origin: Origin | None = None
    nearness: _Nearness = "elsewhere"
    written: list[Message] = []
    waiting: Mapping[str, ProviderCall] = NONE_WAITING
    runs = False
    bound = 0
    if to.protocol == "messages" and _binds_thoughts(to.model):
        bound = moved(messages)
    for place, message in enumerate(messages):
        if 0 < place <= bound:
            message = _without_thoughts(message)
        if message.role == "assistant":
            if (
                message.origin is not origin
            ):  # usually all messages have the same origin
                origin, nearness = message.origin, _nearness(message.origin, to)
            if nearness == "elsewhere" or (
                gone and not containers_of(message).isdisjoint(gone)
            ):
                shown = _words_and_calls(message, waiting)
            else:
                shown = _at_home(
                    message, to, nearness == "same model", searches, refused, servers
                )
            has_run = ProviderBlock in map(type, message.parts)
            if has_run:
                waiting = calls_to_come(message)
            else:
                waiting = NONE_WAITING
            runs = runs or has_run
            message = shown
        written.append(message)
    if runs and to.protocol == "messages":
        return with_pairs(messages, written)
    return tuple(written)


def _binds_thoughts(model_name: str) -> bool:
    model = identity_of(model_name)
    return model.family in _BINDS and model.version >= _BINDS[model.family]


def _without_thoughts(message: Message) -> Message:
    parts = tuple(part for part in message.parts if not isinstance(part, Thinking))
    if len(parts) == len(message.parts):
        return message
    return replace(message, parts=parts)


def last_container(messages: Sequence[Message], to: Origin) -> Container | None:
    """Return the container of the last code run in the conversation, if this address has it; else None."""
    for message in reversed(messages):
        if (
            Container in map(type, message.parts)
            and _nearness(message.origin, to) != "elsewhere"
        ):
            return next(
                part for part in reversed(message.parts) if isinstance(part, Container)
            )
    return None


_Nearness: TypeAlias = Literal["same model", "same address", "elsewhere"]


def _nearness(origin: Origin | None, to: Origin) -> _Nearness:
    """Return how close the origin is to the target; if no address is known, the provider's name decides.

    A model and its dated snapshots are the same; an unknown model may be the same. Models behind Chat Completions share
    nothing.
    """
    if (
        origin is None
        or (origin.protocol or PROTOCOLS.get(origin.provider, "chat")) != to.protocol
    ):
        return "elsewhere"
    if (
        origin.address != to.address
        if origin.address
        else origin.provider != to.provider
    ):
        return "elsewhere"
    if not origin.model or undated(origin.model) == undated(to.model):
        return "same model"
    if to.protocol == "chat":
        return "elsewhere"
    return "same address"


def _at_home(
    message: Message,
    to: Origin,
    is_same: bool,
    searches: bool,
    refused: Collection[str],
    servers: Collection[str],
) -> Message:
    """Return an answer from a model at the target's address, as the target may receive it."""
    for part in message.parts:
        if isinstance(part, Thinking | ProviderBlock):
            break
    else:
        if is_same:
            return message
        return replace(message, parts=tuple(map(_between, message.parts)))
    if to.protocol == "messages":
        message = _of_servers(message, servers)
    parts = [
        part
        for part in message.parts
        if not isinstance(part, Thinking) or (is_same and _may_go(part, refused))
    ]
    if len(parts) < len(message.parts) and to.protocol == "responses":
        return _words_and_calls(message)
    if not is_same:
        parts = [
            _between(part)
            for part in parts
            if not isinstance(part, ProviderBlock) or _is_shared(part, to)
        ]
    elif not searches and message.origin is not None and not message.origin.model:
        parts = [
            part
            for part in parts
            if not isinstance(part, ProviderBlock) or not _is_search(part)
        ]
    if to.protocol != "chat":
        kept = _whole(parts, to)
    else:
        kept = parts
    if len(kept) == len(message.parts) and is_same:
        return message
    return replace(message, parts=tuple(kept))


def _of_servers(message: Message, servers: Collection[str]) -> Message:
    """Return the message; calls of MCP servers that are not in the request become text."""
    blocks = [part.data for part in message.parts if isinstance(part, ProviderBlock)]
    lost = {
        id(block): str(block.get("id"))
        for block in blocks
        if block.get("type") in ("mcp_tool_use", "mcp_tool_listing")
        and (block.get("server_name") or block.get("mcp_server_name")) not in servers
    }
    if not lost:
        return message
    told, calls = in_words(message.parts), set(lost.values())
    parts: list[Part] = []
    for place, part in enumerate(message.parts):
        is_lost = isinstance(part, ProviderBlock) and (
            id(part.data) in lost or part.data.get("tool_use_id") in calls
        )
        if not is_lost:
            parts.append(part)
        elif place in told:
            parts.append(Text(told[place]))
    return replace(message, parts=tuple(parts))


def _may_go(thought: Thinking, refused: Collection[str]) -> bool:
    return not refused or thought_key(thought) not in refused


def _words_and_calls(
    message: Message, waiting: Mapping[str, ProviderCall] = NONE_WAITING
) -> Message:
    told = in_words(message.parts, waiting)
    parts: list[Part] = []
    for place, part in enumerate(message.parts):
        if place in told:
            parts.append(Text(told[place]))
        elif not isinstance(part, Thinking | ProviderBlock | Container):
            parts.append(_plain(part))
    return replace(message, parts=tuple(parts), origin=None)


def _plain(part: Part) -> Part:
    if isinstance(part, Text | ToolCall) and part.provider_data:
        return replace(part, provider_data={})
    return part


def _between(part: Part) -> Part:
    """Return the part without data about the origin of a call: a program, a namespace, or reasoning.

    Only the call's own provider can use that data.
    """
    if isinstance(part, ToolCall):
        return _plain(part)
    return part


def _is_shared(block: ProviderBlock, to: Origin) -> bool:
    return block.data.get("type") in SERVER_TOOLS[
        to.protocol or "chat"
    ] and not _is_search(block)


def _is_search(block: ProviderBlock) -> bool:
    """Return whether the block is a provider's search of deferred tools, or its result."""
    kind, name = str(block.data.get("type")), str(block.data.get("name"))
    return kind.startswith("tool_search_") or (
        kind == "server_tool_use" and name.startswith("tool_search_tool")
    )


def _whole(parts: Sequence[Part], to: Origin) -> list[Part]:
    """Return the parts without those at the end that a provider refuses there, such as reasoning in an answer that was
    cut off.
    """
    kept = list(parts)
    for place in reversed(range(len(parts))):
        part = parts[place]
        if isinstance(part, Thinking) or (
            to.protocol == "messages" and _is_server_call(part)
        ):
            del kept[place]
        elif _is_written(part):
            break
    return kept


def _is_written(part: Part) -> bool:
    if isinstance(part, Text):
        return bool(part.text.strip() or part.provider_data)
    return not isinstance(part, ToolsChanged | ToolsShown | Container)


def _is_server_call(part: Part) -> bool:
    return isinstance(part, ProviderBlock) and part.data.get("type") in (
        "server_tool_use",
        "mcp_tool_use",
    )


def thought_key(thought: Thinking) -> str:
    """Return a key that identifies reasoning by its provider's data."""
    return sha256(
        json_text(thought.provider_data).encode("utf-8", "replace")
    ).hexdigest()


def thoughts_of(messages: Iterable[Message]) -> frozenset[str]:
    """Return the `thought_key` of all reasoning in a history."""
    return frozenset(
        thought_key(part)
        for message in messages
        for part in message.parts
        if isinstance(part, Thinking)
    )
