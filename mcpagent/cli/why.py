"""Why the model has a tool, or has it not: what the searches of this conversation came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.figures import counted
from mcpagent.events import Event, RequestSent, ToolCallFinished, ToolsLoaded, ToolsRemoved, ToolsSearched
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.approvals import Rules
    from mcpagent.cli.configuration import Configuration
    from mcpagent.search import SearchResult

RANKED = 50
"""How far down a search is looked at for a tool that was not shown."""

MAX_SEARCHES = 8


@dataclass(slots=True)
class SearchTrace:
    """The searches, loads and calls of one conversation; requests are counted from 1 over all its turns."""

    requests: int = 0
    searches: list[tuple[int, ToolsSearched]] = field(default_factory=list[tuple[int, ToolsSearched]])
    loaded: dict[str, int] = field(default_factory=dict[str, int])
    removed: dict[str, int] = field(default_factory=dict[str, int])
    called: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def follow(self, event: Event) -> None:
        match event:
            case RequestSent():
                self.requests += 1
            case ToolsSearched():
                self.searches.append((self.requests, event))
            case ToolsLoaded(names=names):
                self.loaded |= dict.fromkeys(names, self.requests + 1)
            case ToolsRemoved(names=names):
                self.removed |= dict.fromkeys(names, self.requests + 1)
            case ToolCallFinished(call=call):
                self.called.setdefault(call.name, []).append(self.requests)
            case _:
                pass

    def clear(self) -> None:
        self.restore(SearchTrace())

    def copy(self) -> SearchTrace:
        called = {name: list(requests) for name, requests in self.called.items()}
        return SearchTrace(self.requests, list(self.searches), dict(self.loaded), dict(self.removed), called)

    def restore(self, earlier: SearchTrace) -> None:
        """Makes it what a copy was."""
        kept = earlier.copy()
        self.requests, self.searches, self.loaded = kept.requests, kept.searches, kept.loaded
        self.removed, self.called = kept.removed, kept.called


async def why_lines(agent: Agent, trace: SearchTrace, name: str, rules: Rules | None = None) -> list[Text]:
    """What happened to one known tool: whether it is offered and since when, its place in each search, its calls."""
    catalog = agent.catalog
    offered = name in {tool.name for tool in agent.offered_tools()}
    lines = [Text.assemble((name, "tool"), f" {_standing(agent, trace, name, offered=offered)}")]
    for number, (request, search) in list(enumerate(trace.searches, start=1))[-MAX_SEARCHES:]:
        place = await _place(agent, search, name)
        lines.append(Text(f'  search {number} (request {request}) "{safe_line(search.query, 80)}": {place}'))
    if calls := trace.called.get(name):
        lines.append(Text(f"  called in request {', '.join(str(request) for request in calls)}"))
    elif offered:
        lines.append(Text("  never called"))
    denied = rules.denied_by(agent.known_tools[name]) if rules is not None else None
    if denied is not None:
        lines.append(Text(f"  every call of it is denied, by the rule {safe_line(denied, 80)}", "warning"))
    if not offered and not trace.searches and catalog.searching:
        lines.append(Text("  the model has not searched yet; /find WORDS shows what it would find", "dim"))
    if not offered:
        lines.append(Text(f"  --always-load {name} offers it from the first request on", "dim"))
    return lines


def _standing(agent: Agent, trace: SearchTrace, name: str, *, offered: bool) -> str:
    catalog = agent.catalog
    cost = f"{catalog.tokens([name]):,} tokens"
    if offered and name in trace.loaded:
        return f"is offered since request {trace.loaded[name]}, because the model added it ({cost})"
    if offered and not catalog.searching:
        return f"is offered in every request: tool search is off ({cost})"
    if offered:
        return f"is offered in every request: it is always loaded ({cost})"
    if name in trace.removed:
        return f"was removed by the model before request {trace.removed[name]}"
    return f"is not offered: it has to be found first (would be {cost})"


async def _place(agent: Agent, search: ToolsSearched, name: str) -> str:
    from mcpagent.cli.tool_views import because

    result = await agent.search(search.query, RANKED)
    place = next((place for place, match in enumerate(result.matches, start=1) if match.tool.name == name), None)
    cut_off = _cut_off(result)
    if place is None or place > search.found:  # a longer ranking may go on with what is only similar
        best = f"; the best was {safe_line(search.matches[0], 64)}" if search.matches else ""
        own = f" ({result.matches[place - 1].score:.1f}{cut_off})" if place is not None else ""
        return f"not among the {counted(search.found, 'tool')} found{own}{best}"
    match = result.matches[place - 1]
    shown = "" if name in search.matches else f", below the {len(search.matches)} shown"
    reasons = f": {safe_line(because(match), 80)}" if because(match) else ""
    return f"place {place} of {search.found} ({match.score:.1f}{cut_off}){shown}{reasons}"


def _cut_off(result: SearchResult) -> str:
    """`; cut-off 7.9`: what counts as found has at least half of the best score, where words alone decide."""
    if result.how != "ranked" or not result.matches:
        return ""
    by_words = all(reason.field != "meaning" for match in result.matches[:1] for reason in match.reasons)
    return f"; cut-off {result.matches[0].score / 2:.1f}" if by_words else f"; best {result.matches[0].score:.1f}"


def unknown_lines(agent: Agent, configuration: Configuration, rules: Rules, name: str) -> list[Text]:
    """Why nothing of that name is known: misspelt, hidden by its server's configuration, or its server is not there."""
    from mcpagent.cli.tool_commands import not_connected_lines, unknown_tool

    lines = [Text(unknown_tool(name, agent.catalog.near(name)), "warning")]
    for server in configuration.enabled:
        own = name.removeprefix(f"{server.name}.").removeprefix(f"{server.name}__")
        where = f" ({safe_line(server.source, 100)})" if server.source else ""
        if any(fnmatchcase(own, glob) for glob in server.disabled_tools):
            lines.append(Text(f"  {safe_line(server.name, 64)} may have it, but disabledTools hides it{where}"))
        elif own != name and server.enabled_tools and not any(fnmatchcase(own, glob) for glob in server.enabled_tools):
            lines.append(Text(f"  {safe_line(server.name, 64)} has enabledTools, and it is not among them{where}"))
    if any(fnmatchcase(name, glob) for glob in rules.deny):
        lines.append(Text("  a rule denies it anyway; /deny shows them"))
    disabled = [safe_line(server.name, 64) for server in configuration.servers.servers if server.disabled]
    if disabled:
        lines.append(Text(f"  not asked, since disabled: {', '.join(disabled)}", "dim"))
    return [*lines, *not_connected_lines(agent)]
