"""The chat's slash commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.catalog import CHARACTERS_PER_TOKEN
from mcpagent.cli.approvals import covers
from mcpagent.cli.figures import counted, duration, money, saving, tokens
from mcpagent.cli.lines import column, reason
from mcpagent.cli.terminal import put
from mcpagent.cli.tool_commands import not_connected_lines, unknown_tool
from mcpagent.cli.tool_views import detail_lines, filtered, list_lines, search_report
from mcpagent.cli.why import SearchTrace, why_lines
from mcpagent.messages import Message, ToolResult
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.approvals import Rules
    from mcpagent.cli.configuration import Configuration
    from mcpagent.cli.status import Figures
    from mcpagent.cli.terminal import Terminal

MAX_TOOLS_LISTED = 60
FOUND_LIMIT = 5
BAR_WIDTH = 24


class Leave(Exception):  # noqa: N818 - not an error: `/exit`
    """The user wants to go."""


@dataclass(slots=True)
class Desk:
    """What commands work with. `ready` waits until the servers are connected."""

    agent: Agent
    configuration: Configuration
    terminal: Terminal
    figures: Figures
    ready: Callable[[], Awaitable[None]]
    rules: Rules
    trace: SearchTrace

    def say(self, *lines: Text | str) -> None:
        put(self.terminal.out, *lines)

    @property
    def width(self) -> int:
        return self.terminal.out.width


async def tools(desk: Desk, argument: str) -> None:
    """the tools, with what each costs; + is offered now"""
    await desk.ready()
    found = filtered(desk.agent.known_tools, argument)
    offered = [tool.name for tool in desk.agent.offered_tools()]
    desk.say(*list_lines(found, width=desk.width, loaded=offered, limit=MAX_TOOLS_LISTED))
    if not found:
        desk.say(
            f'no tool has "{safe_line(argument, 60)}" in its name or description; /find searches as the model does'
        )
    elif len(found) > MAX_TOOLS_LISTED:
        desk.say(Text(f"{len(found) - MAX_TOOLS_LISTED:,} more; narrow with /tools WORDS", "dim"))


async def tool(desk: Desk, argument: str) -> None:
    """one tool: description, parameters, cost"""
    if not argument:
        desk.say("which one? /tool NAME")
        return
    await desk.ready()
    catalog = desk.agent.catalog
    found = catalog.find(argument) or catalog.find(argument.replace(".", "__", 1))
    if found is None:
        desk.say(Text(unknown_tool(argument, catalog.near(argument)), "warning"))
    else:
        desk.say(*detail_lines(found.definition, desk.width))


async def find(desk: Desk, argument: str) -> None:
    """what the model finds with these words, and why"""
    if not argument:
        desk.say("what for? /find WORDS")
        return
    await desk.ready()
    result = await desk.agent.search(argument, FOUND_LIMIT)
    known = len(desk.agent.known_tools)
    desk.say(*search_report(result, known, width=desk.width, glyphs=desk.terminal.glyphs, explain=True))
    desk.say(*not_connected_lines(desk.agent))


async def why(desk: Desk, argument: str) -> None:
    """why the model has this tool, or has it not"""
    name = argument.removeprefix("not ").strip()
    if not name:
        desk.say("which tool? /why NAME")
        return
    await desk.ready()
    catalog = desk.agent.catalog
    found = catalog.find(name) or catalog.find(name.replace(".", "__", 1))
    if found is None:
        desk.say(Text(unknown_tool(name, catalog.near(name)), "warning"), *not_connected_lines(desk.agent))
    else:
        desk.say(*await why_lines(desk.agent, desk.trace, found.name))


async def allow(desk: Desk, argument: str) -> None:
    """run these tools without asking, in this chat; alone: the rules"""
    await _add_rule(desk, desk.rules.allow, argument)


async def deny(desk: Desk, argument: str) -> None:
    """never run these tools, in this chat; alone: the rules"""
    await _add_rule(desk, desk.rules.deny, argument)


async def _add_rule(desk: Desk, rules: list[str], glob: str) -> None:
    await desk.ready()
    if glob and glob not in rules:
        rules.append(glob)
    if glob:
        covered = [tool for tool in desk.agent.known_tools.values() if covers(glob, tool)]
        near = desk.agent.catalog.near(glob) if not covered else ()
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        desk.say(Text(f"covers {counted(len(covered), 'tool')}{hint}", "dim" if covered else "warning"))
    desk.say(f"mode   {desk.rules.mode.value}")
    for title, globs in (("allow", desk.rules.allow), ("deny", desk.rules.deny)):
        if globs:
            desk.say(f"{title:<6} {safe_line(' '.join(globs), 300)}")


async def mcp(desk: Desk, argument: str) -> None:
    """the servers and how they are"""
    glyphs = desk.terminal.glyphs
    servers = {name: status for name, status in desk.agent.servers.items() if argument in ("", name)}
    if argument and not servers:
        near = get_close_matches(argument, desk.configuration.names, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        desk.say(Text(f'no server "{safe_line(argument, 60)}"{hint}', "warning"))
        return
    marks = {
        "ready": (glyphs.ok, "ok"),
        "cached": (glyphs.ok, "ok"),
        "failed": (glyphs.failed, "error"),
        "connecting": ("..", "dim"),
        "closed": ("-", "dim"),
    }
    width = max((len(name) for name in servers), default=0)
    for name, status in servers.items():
        facts = {
            "ready": f"{counted(status.tool_count, 'tool')}, connected in {duration(status.seconds)}",
            "cached": f"{counted(status.tool_count, 'tool')}, known from an earlier run, starts with its first call",
            "failed": reason(name, status.reason),
        }.get(status.state, status.state)
        desk.say(Text.assemble(marks[status.state], " ", (column(safe_line(name, 64), width), "user"), f"  {facts}"))
        for warning in status.warnings if argument else ():
            desk.say(Text(f"  {glyphs.warning} {safe_line(warning, 300)}", "warning"))
    desk.say(Text(desk.configuration.describe(Path.cwd()), "dim"))


async def context(desk: Desk, _argument: str) -> None:
    """what the next request carries, and what the last one was counted as"""
    await desk.ready()
    desk.say(*context_lines(desk))


async def cost(desk: Desk, _argument: str) -> None:
    """what this chat took so far, and what tool search saved"""
    spent = desk.agent.spent
    usage = spent.usage
    cached = f" ({tokens(usage.cache_read_tokens)} from the cache)" if usage.cache_read_tokens else ""
    price = money(spent.dollars, known=spent.cost_known)
    desk.say(
        f"{counted(desk.trace.requests, 'request')} in this conversation",
        f"the whole chat: in {tokens(usage.input_tokens)}{cached}, out {tokens(usage.output_tokens)}, {price}",
        f"tool definitions: about {tokens(spent.definition_tokens)} tokens of it",
    )
    if spent.saved_tokens > 0:
        desk.say(f"offering every tool each time would have added {tokens(spent.saved_tokens)}")
    if not spent.cost_known:
        desk.say(Text("? some prices are not known", "dim"))


async def new(desk: Desk, _argument: str) -> None:
    """a new conversation; servers stay connected"""
    await desk.ready()
    desk.agent.new_conversation()
    desk.figures.read(desk.agent)
    desk.figures.last = None
    desk.trace.clear()
    desk.say(Text("new conversation", "dim"))


async def leave(_desk: Desk, _argument: str) -> None:
    """end the chat (also Ctrl-D)"""
    raise Leave


async def show_help(desk: Desk, _argument: str) -> None:
    """this page"""
    for title, names in GROUPS.items():
        desk.say(Text(title, "user"))
        for name in names:
            command = COMMANDS[name]
            desk.say(Text.assemble("  ", (column(f"{name} {command.parameter}".strip(), 16), "tool"), command.about))
    desk.say(Text("keys", "user"), *KEYS)


@dataclass(frozen=True, slots=True)
class Command:
    run: Callable[[Desk, str], Awaitable[None]]
    parameter: str = ""

    @property
    def about(self) -> str:
        return (self.run.__doc__ or "").strip()


COMMANDS: Mapping[str, Command] = {
    "/new": Command(new),
    "/exit": Command(leave),
    "/tools": Command(tools, "[FILTER]"),
    "/tool": Command(tool, "NAME"),
    "/find": Command(find, "QUERY"),
    "/why": Command(why, "[not] NAME"),
    "/allow": Command(allow, "[GLOB]"),
    "/deny": Command(deny, "[GLOB]"),
    "/mcp": Command(mcp, "[NAME]"),
    "/context": Command(context),
    "/cost": Command(cost),
    "/help": Command(show_help),
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    "chat": ("/new", "/exit"),
    "tools": ("/tools", "/tool", "/find", "/why", "/allow", "/deny"),
    "servers": ("/mcp",),
    "context": ("/context", "/cost"),
    "setup": ("/help",),
}

KEYS = (
    "  Enter send, Alt+Enter or Ctrl+J new line, Up and Ctrl+R history, Tab complete",
    "  Ctrl+C stop the answer or clear the line, twice quit; Ctrl+D quit",
)

ALIASES = {"/quit": "/exit", "/q": "/exit", "/?": "/help", "/servers": "/mcp", "/search": "/find", "/clear": "/new"}


async def run_command(desk: Desk, line: str) -> None:
    """Runs one slash command; an unknown one is answered with near names. Raises `Leave`."""
    word, _, argument = line.strip().partition(" ")
    command = COMMANDS.get(ALIASES.get(word, word))
    if command is not None:
        await command.run(desk, argument.strip())
        return
    near = get_close_matches(word, [*COMMANDS, *ALIASES], n=1, cutoff=0.5)
    hint = f"did you mean {ALIASES.get(near[0], near[0])}?" if near else "/help lists them"
    desk.say(Text(f"unknown command {safe_line(word, 40)} - {hint}", "warning"))


def is_command(line: str) -> bool:
    """`/word`; a path such as /etc/hosts is part of a question."""
    word = line.strip().partition(" ")[0]
    return word.startswith("/") and "/" not in word[1:] and "\n" not in word and len(word) > 1


def context_lines(desk: Desk) -> list[Text]:
    """The parts of the next request with their estimated tokens, and the provider's own count of the last one."""
    agent = desk.agent
    catalog = agent.catalog
    offered = agent.offered_tools()
    names = [item.name for item in offered]
    words, results = _message_characters(agent.messages)
    rows = [
        ("system prompt", len(agent.system) // CHARACTERS_PER_TOKEN, ""),
        (f"tools offered ({len(offered)})", catalog.tokens(names), _by_server(agent)),
        ("messages", words // CHARACTERS_PER_TOKEN, ""),
        ("tool results", results // CHARACTERS_PER_TOKEN, ""),
    ]
    hidden = [name for name in catalog.known if name not in set(names)]
    if hidden:
        rows.insert(2, (f"tools deferred ({len(hidden)})", 0, f"would be {catalog.tokens(hidden):,}"))
    total = sum(count for _, count, _ in rows)
    lines = [Text.assemble(("next request", "user"), f"  about {total:,} tokens", ("  (characters / 4)", "dim"))]
    bar_width = max(min(BAR_WIDTH, desk.width - 70), 5)
    largest = max((count for _, count, _ in rows), default=0) or 1
    for label, count, about in rows:
        bar = desk.terminal.glyphs.block * round(bar_width * count / largest)
        lines.append(
            Text.assemble(f"  {label:<22} {count:>8,}  ", (bar, "tool"), (f"  {about}" if about else "", "dim"))
        )
    if desk.figures.last is not None and desk.figures.last.input_tokens:
        usage = desk.figures.last
        lines.append(
            Text(
                f"last request, counted by the provider: {usage.input_tokens:,} in "
                f"({usage.cache_read_tokens:,} from its cache), {usage.output_tokens:,} out",
                "dim",
            )
        )
    costly = sorted(names, key=lambda name: -catalog.tokens([name]))[:3]
    shown = ", ".join(f"{safe_line(name, 40)} {catalog.tokens([name]):,}" for name in costly)
    less = saving(catalog.tokens(names), catalog.tokens(catalog.known))
    saved = f"; tool search saves {less.removeprefix('-')} of the definitions" if less else ""
    lines.append(Text(f"largest tools: {shown or 'none'}{saved}", "dim"))
    return lines


def _by_server(agent: Agent) -> str:
    """`weather 310, search_tools 90`: where the offered definitions come from."""
    costs: dict[str, int] = {}
    for item in agent.offered_tools():
        owner = item.server or item.name
        costs[owner] = costs.get(owner, 0) + agent.catalog.tokens([item.name])
    top = sorted(costs.items(), key=lambda pair: -pair[1])[:3]
    return ", ".join(f"{safe_line(owner, 30)} {cost:,}" for owner, cost in top)


def _message_characters(messages: tuple[Message, ...]) -> tuple[int, int]:
    """Characters of what was said and called, and of the tools' results."""
    results = sum(len(part.text) for message in messages for part in message.parts if isinstance(part, ToolResult))
    calls = sum(len(str(call.arguments)) + len(call.name) for message in messages for call in message.tool_calls)
    return sum(len(message.text) for message in messages) + calls, results
