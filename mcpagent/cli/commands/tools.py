"""`/tools`, `/tool`, `/find`, `/why`, `/allow`, `/deny`."""

from __future__ import annotations

from rich.text import Text

from mcpagent.cli.approval_commands import approval_lines
from mcpagent.cli.approvals import covers
from mcpagent.cli.commands.desk import Desk
from mcpagent.cli.figures import counted
from mcpagent.cli.kept_approvals import KeptApprovals
from mcpagent.cli.why import unknown_lines, why_lines
from mcpagent.safe_text import safe_line
from mcpagent.tools import Tool

MAX_TOOLS_LISTED = 60
FOUND_LIMIT = 5


async def tools(desk: Desk, argument: str) -> None:
    """the tools, with what each costs; + is offered now"""
    from mcpagent.cli.tool_commands import not_connected_lines
    from mcpagent.cli.tool_views import filtered, list_lines

    await desk.ready()
    found = filtered(desk.agent.known_tools, argument)
    offered = [tool.name for tool in desk.agent.offered_tools()]
    desk.say(*list_lines(found, width=desk.width, loaded=offered, limit=MAX_TOOLS_LISTED))
    if not found:
        words = safe_line(argument, 60)
        said = f'no tool has "{words}" in its name or description' if words else "there are no tools"
        desk.say(f"{said}; /find searches as the model does" if words else said, *not_connected_lines(desk.agent))
    elif len(found) > MAX_TOOLS_LISTED:
        desk.note(f"{len(found) - MAX_TOOLS_LISTED:,} more; narrow with /tools WORDS")


async def tool(desk: Desk, argument: str) -> None:
    """one tool: description, parameters, cost"""
    from mcpagent.cli.tool_commands import unknown_tool
    from mcpagent.cli.tool_views import detail_lines

    if not argument:
        desk.say("which one? /tool NAME")
        return
    await desk.ready()
    found = _meant(desk, argument)
    if found is None:
        desk.warn(unknown_tool(argument, desk.agent.catalog.near(argument)))
    else:
        desk.say(*detail_lines(found.definition, desk.width))


async def find(desk: Desk, argument: str) -> None:
    """what the model finds with these words, and why"""
    from mcpagent.cli.tool_commands import not_connected_lines
    from mcpagent.cli.tool_views import search_report

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
    if name in ("", "not"):
        desk.say("which tool? /why NAME")
        return
    await desk.ready()
    found = _meant(desk, name)
    if found is None:
        desk.say(*unknown_lines(desk.agent, desk.configuration, desk.rules, name))
    else:
        desk.say(*await why_lines(desk.agent, desk.trace, found.name, desk.rules))


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
    if glob:
        return
    kept = [yes for yes in KeptApprovals.of_user(desk.environ).all() if yes.name in desk.configuration.names]
    for line in approval_lines(kept):
        desk.say(Text.assemble("always ", line))
    if kept:
        desk.note("mcpagent approvals forget NAME takes an always back; /deny NAME denies it in this chat")


def _meant(desk: Desk, name: str) -> Tool | None:
    catalog = desk.agent.catalog
    return catalog.find(name) or catalog.find(name.replace(".", "__", 1))
