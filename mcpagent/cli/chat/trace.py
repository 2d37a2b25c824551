"""Record the events of one conversation and its last request to the model, for `/context` and `/why`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.number_formats import saving
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.history.token_estimates import DEFINITION_SHARE, IMAGE_TOKENS
from mcpagent.models.base import discovery_note
from mcpagent.models.tool_changes_in_history import SEARCH_NAMES
from mcpagent.run.large_results.offloaded_results import set_aside_in
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN, definition_tokens
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    Event,
    RequestSent,
    ResponseReceived,
    ToolCallFinished,
    ToolsLoaded,
    ToolsRemoved,
    ToolsSearched,
)
from mcpagent.values.messages import FILE_PARTS, Message, ToolDefinition, Usage
from mcpagent.values.messages import Text as Words

BAR_WIDTH = 24
LARGEST = 3


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request to the model, for `/context` and similar commands.

    `deferred` maps each tool that is not offered to the tokens of its definition. `usage` is None until the provider
    reports it.
    """

    number: int
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    deferred: Mapping[str, int]
    usage: Usage | None = None


def next_request(agent: Agent, number: int) -> SentRequest:
    """Return the request that would be sent now."""
    tools, catalog = tuple(agent.offered_tools()), agent._runtime.tools
    offered = {tool.name for tool in tools}
    deferred = {
        name: catalog.tokens([name]) for name in catalog.known if name not in offered
    }
    return SentRequest(
        number,
        agent._runtime.own_session.system,
        agent._runtime.own_session.sent_messages,
        tools,
        deferred,
    )


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a conversation so far, as a value: undoing a prompt restores an earlier one.

    Requests are counted from 1 over all turns; `loaded`, `removed` and `called` refer to these numbers. `used` is the
    latest number of input tokens that the provider reported.
    """

    requests: int = 0
    last: SentRequest | None = None
    used: int = 0
    searches: tuple[tuple[int, ToolsSearched], ...] = ()
    loaded: Mapping[str, int] = field(default_factory=dict[str, int])
    removed: Mapping[str, int] = field(default_factory=dict[str, int])
    called: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict[str, tuple[int, ...]]
    )

    def after(self, event: Event, agent: Agent) -> Trace:
        """Return the trace with this event. Call this when the event happens, while the conversation is in the state
        that was sent.
        """
        now = self.requests
        match event:
            case RequestSent():
                return replace(
                    self, requests=now + 1, last=next_request(agent, now + 1)
                )
            case ResponseReceived(usage=usage) if self.last is not None:
                return replace(
                    self, last=replace(self.last, usage=usage), used=usage.input_tokens
                )
            case ToolsSearched():
                return replace(self, searches=(*self.searches, (now, event)))
            case ToolsLoaded(names=names):
                return replace(
                    self, loaded={**self.loaded, **dict.fromkeys(names, now + 1)}
                )
            case ToolsRemoved(names=names):
                return replace(
                    self, removed={**self.removed, **dict.fromkeys(names, now + 1)}
                )
            case ToolCallFinished(call=call):
                return replace(
                    self,
                    called={
                        **self.called,
                        call.name: (*self.called.get(call.name, ()), now),
                    },
                )
            case _:
                return self


# -- Context report ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """A category of a request, with its tokens."""

    label: str
    tokens: int
    about: str = ""


def context_lines(
    agent: Agent, trace: Trace, window: int | None, glyphs: Glyphs, width: int
) -> list[Text]:
    """Return lines with the last request by category, and the counting method; before the first request, the next
    one.
    """
    request = trace.last or next_request(agent, 1)
    counted = 0
    if request.usage is not None:
        counted = request.usage.input_tokens
    estimate = _estimate(request)
    total = counted or sum(share.tokens for share in estimate)
    shares = _scaled(estimate, total)
    about = "the next request"
    if trace.last is not None:
        about = f"request {request.number}"
    of_window = " tokens"
    if window:
        of_window = f" of {window:,} tokens ({100 * total / window:.0f}%)"
    how = "counted: characters / 4"
    if counted:
        how = "counted: provider usage; split by characters"
    head = f"context of {about}   {'' if counted else '~'}{total:,}{of_window}"
    lines = [Text(head, "user")]
    if len(head) + len(how) + 3 <= width:
        lines[0].append(f"   {how}", "dim")
    else:
        lines.append(Text(f"  {how}", "dim"))
    largest = max((share.tokens for share in shares), default=0) or 1
    bar_width = max(min(BAR_WIDTH, width - 76), 4)
    for share in shares:
        bar = glyphs.block * round(bar_width * share.tokens / largest)
        if width >= 60:
            about = safe_line(share.about, max(width - 38 - bar_width, 0))
        else:
            about = ""
        line = Text.assemble(
            f"  {share.label:<22} {share.tokens:>9,}  ", (f"{bar:<{bar_width}}", "tool")
        )
        line.append(f"  {about}" if about else "", "dim")
        line.rstrip()
        lines.append(line)
    lines += _remarks(request, glyphs)
    searches = any(tool.name in SEARCH_NAMES for tool in request.tools)
    if searches and (note := discovery_note(agent._runtime.model, total)):
        lines.append(Text(note, "dim"))
    return lines


def _remarks(request: SentRequest, glyphs: Glyphs) -> list[Text]:
    lines: list[Text] = []
    costs = sorted(
        ((definition_tokens(tool), tool.name) for tool in request.tools),
        key=lambda item: -item[0],
    )
    if costs:
        shown = f" {glyphs.dot} ".join(
            f"{safe_line(name, 40)} {cost:,}" for cost, name in costs[:LARGEST]
        )
        sent = sum(cost for cost, _ in costs)
        less = saving(sent, sent + sum(request.deferred.values()))
        saved = ""
        if less:
            saved = f"; tool search saves {less.removeprefix('-')} of the definitions"
        lines.append(Text(f"largest tools: {shown}{saved}", "dim"))
    usage = request.usage
    if usage is not None and usage.input_tokens:
        facts = [f"answered with {usage.output_tokens:,} tokens"]
        if usage.cache_read_tokens or usage.cache_write_tokens:
            facts.append(f"{usage.cache_read_tokens:,} read from the provider's cache")
            facts.append(f"{usage.cache_write_tokens:,} written to it")
        lines.append(Text(", ".join(facts), "dim"))
    return lines


def _estimate(request: SentRequest) -> list[Share]:
    """Estimate the tokens of each category as characters / 4. Deferred tools count 0, because they are not sent."""
    said, results = _message_tokens(request.messages)
    shares = [
        Share("system prompt", len(request.system) // CHARACTERS_PER_TOKEN),
        Share(
            f"tools loaded ({len(request.tools)})",
            sum(map(definition_tokens, request.tools)),
            _owners(request),
        ),
    ]
    if request.deferred:
        would_be = f"would be {sum(request.deferred.values()):,}"
        shares.append(Share(f"tools deferred ({len(request.deferred)})", 0, would_be))
    return [
        *shares,
        Share("messages", said),
        Share("tool results", results, _aside(request.messages)),
    ]


def definition_scale(trace: Trace) -> float:
    """Return the ratio of the tokens that the provider counted for the last request to their estimate (characters / 4).

    Without a counted request, returns a typical ratio for definitions.
    """
    request = trace.last
    if request is None or request.usage is None or not request.usage.input_tokens:
        return DEFINITION_SHARE
    estimated = sum(share.tokens for share in _estimate(request))
    return request.usage.input_tokens / max(estimated, 1)


def _scaled(shares: Sequence[Share], total: int) -> list[Share]:
    """Return shares in the same proportions with this sum; the largest share gets the rounding difference."""
    estimated = sum(share.tokens for share in shares)
    if not estimated or estimated == total:
        return list(shares)
    tokens = [share.tokens * total // estimated for share in shares]
    tokens[max(range(len(tokens)), key=tokens.__getitem__)] += total - sum(tokens)
    return [
        replace(share, tokens=count)
        for share, count in zip(shares, tokens, strict=True)
    ]


def _owners(request: SentRequest) -> str:
    """Return `weather 310, search_tools 90`: the origins of the loaded definitions, the most expensive first."""
    costs: dict[str, int] = {}
    for tool in request.tools:
        owner = tool.server or tool.name
        costs[owner] = costs.get(owner, 0) + definition_tokens(tool)
    top = sorted(costs.items(), key=lambda pair: -pair[1])
    shown = ", ".join(
        f"{safe_line(owner, 30)} {cost:,}" for owner, cost in top[:LARGEST]
    )
    return shown + (f", {len(top) - LARGEST} more" if len(top) > LARGEST else "")


def _message_tokens(messages: Sequence[Message]) -> tuple[int, int]:
    """Return the tokens of texts and calls, and the tokens of tool results."""
    said = results = 0
    for message in messages:
        said += len(message.text) // CHARACTERS_PER_TOKEN + _images(message.parts)
        for call in message.tool_calls:
            said += (
                len(call.name) + len(json.dumps(call.arguments, default=str))
            ) // CHARACTERS_PER_TOKEN
        for result in message.tool_results:
            words = sum(
                len(part.text) for part in result.content if isinstance(part, Words)
            )
            results += words // CHARACTERS_PER_TOKEN + _images(result.content)
    return said, results


def _aside(messages: Sequence[Message]) -> str:
    """Return a description of the offloaded results: `2 set aside, 11,000,000 kept out`."""
    whole = [
        result.set_aside.tokens
        for result in set_aside_in(messages)
        if result.set_aside is not None
    ]
    kept_out = ""
    if any(whole):
        kept_out = f", {sum(whole):,} kept out"
    if whole:
        return f"{len(whole)} set aside{kept_out}"
    return ""


def _images(parts: Sequence[object]) -> int:
    return IMAGE_TOKENS * sum(isinstance(part, FILE_PARTS) for part in parts)
