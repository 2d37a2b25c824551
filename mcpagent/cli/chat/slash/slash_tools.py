"""The commands about a conversation's tools: `/tools`, `/tool`, `/find`, `/why`, `/allow`, `/deny`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.approvals.approval_commands import approval_lines
from mcpagent.cli.approvals.changed_tools import (
    change_to_agree_to,
    known_changes,
    reason_of,
)
from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.chat.trace import Trace
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.tools_command.tool_views import (
    because,
    detail_lines,
    hiding_lists,
    list_lines,
    meant_tool,
    not_connected_lines,
    search_report,
    skill_names,
    tools_with_words,
    unknown_tool,
)
from mcpagent.mcp.lists.pins import ToolChange
from mcpagent.permissions.decision import Rules, decide
from mcpagent.permissions.rule_matching import forbids, resource_servers
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.permissions.unused_rules import near_rules
from mcpagent.run.middleware.permission_gate import facts_of
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import Approval, Rule
from mcpagent.values.events import ToolsSearched
from mcpagent.values.messages import ToolDefinition

LISTED = "/tools lists them"
MAX_TOOLS_LISTED = 60
FOUND_LIMIT = 5


async def tools(desk: ChatState, argument: str) -> None:
    """the tools, with what each costs; + is offered now"""
    found = tools_with_words(desk.agent.known_tools, argument)
    offered = [tool.name for tool in desk.agent.offered_tools()]
    desk.say(
        *list_lines(found, width=desk.width, loaded=offered, limit=MAX_TOOLS_LISTED)
    )
    if not found:
        words = safe_line(argument, 60)
        said = "there are no tools"
        if words:
            said = f'no tool has "{words}" in its name or description'
        desk.say(
            f"{said}; /find searches as the model does" if words else said,
            *not_connected_lines(desk.agent),
        )
    elif len(found) > MAX_TOOLS_LISTED:
        desk.note(f"{len(found) - MAX_TOOLS_LISTED:,} more; narrow with /tools WORDS")


async def tool(desk: ChatState, argument: str) -> None:
    """one tool: description, parameters, cost"""
    found = meant_tool(desk.agent, argument)
    if found is None:
        desk.warn(unknown_tool(desk.agent, argument, LISTED))
    else:
        desk.say(*detail_lines(found.definition, desk.width, desk.terminal.glyphs))


async def find(desk: ChatState, argument: str) -> None:
    """what the model finds with these words, and why"""
    result = await desk.agent.search(argument, FOUND_LIMIT)
    known = len(desk.agent.known_tools)
    desk.say(
        *search_report(
            result,
            known,
            width=desk.width,
            glyphs=desk.terminal.glyphs,
            explain=True,
            skills=skill_names(desk.agent),
        )
    )
    desk.say(*not_connected_lines(desk.agent))


async def why(desk: ChatState, argument: str) -> None:
    """why the model has this tool, or has it not"""
    name = argument.removeprefix("not ").strip()
    if name in ("", "not"):
        desk.say("which tool? /why NAME")
        return
    await desk.ready()
    found = meant_tool(desk.agent, name)
    if found is None:
        desk.say(
            *unknown_lines(desk.agent, desk.configuration, desk.approver.rules, name)
        )
    else:
        desk.say(
            *await why_lines(desk.agent, desk.trace, found.name, desk.approver.rules)
        )
        change = None
        if found.definition.kind == "tool":
            change = await change_to_agree_to(
                found.definition, desk.agent, desk.options, desk.configuration
            )
        if change is not None:
            desk.warn(f"  {_outcome_of(change, desk)}")


async def allow(desk: ChatState, argument: str) -> None:
    """run these tools without asking, in this chat; alone: the rules"""
    await _add_rule(desk, "allow", argument)


async def deny(desk: ChatState, argument: str) -> None:
    """never run these tools, in this chat; alone: the rules"""
    await _add_rule(desk, "deny", argument)


async def _add_rule(desk: ChatState, approval: Approval, pattern: str) -> None:
    rules = desk.approver.rules
    if pattern and pattern not in rules.patterns(approval):
        rule = Rule(pattern, approval)
        rules = desk.approver.rules = replace(rules, options=(*rules.options, rule))
    if pattern:
        asked = desk.agent._runtime.askable()
        named = [tool for tool in asked if rules.names(Rule(pattern, approval), tool)]
        covered = Counter(tool.kind for tool in named)
        others = [
            counted(covered[kind], kind)
            for kind in ("prompt", "resource")
            if covered[kind]
        ]
        what = ", ".join([counted(covered["tool"], "tool"), *others])
        if not covered and resource_servers(pattern) & {
            tool.server for tool in asked if tool.kind == "resource"
        }:
            desk.say(Text("covers what is read there, listed or not", "dim"))
        else:
            hint = did_you_mean(near_rules(pattern, asked) if not covered else ())
            desk.say(
                Text(
                    f"covers {what}{f'; {hint}' if hint else ''}",
                    "dim" if covered else "warning",
                )
            )
        for change in await known_changes(
            named if approval == "allow" else (),
            desk.agent,
            desk.options,
            desk.configuration,
        ):
            name = f"{safe_line(change.server, 64)}.{safe_line(change.tool, 80)}"
            desk.warn(f"{name}: {_outcome_of(change, desk)}")
    desk.say(f"mode   {rules.mode}")
    for kind in ("allow", "deny"):
        if globs := rules.patterns(kind):
            desk.say(f"{kind:<6} {safe_line(' '.join(globs), 300)}")
    if pattern:
        return
    kept = [
        one
        for one in StoredApprovals.of_user(desk.environ).all()
        if one.name in desk.configuration.names
    ]
    for line in approval_lines(kept):
        desk.say(Text.assemble("always ", line))
    if kept:
        desk.note(
            "mcpagent permissions forget NAME takes an always back; /deny NAME denies it in this chat"
        )


def _outcome_of(change: ToolChange, desk: ChatState) -> str:
    """Return whether the next call of a changed tool is refused or needs consent, and why."""
    if change in desk.declined_changes:
        outcome = "you declined it; it is not called until the next start of the chat"
    else:
        outcome = "its next call asks first, whatever the rules allow"
    return f"{reason_of(change)}; {outcome}"


# -- History of one tool -----------------------------------------------------------------------------------------------

RANKED = 50
"""Maximum rank down to which a search is examined for a tool that was not shown."""

MAX_SEARCHES = 8


async def why_lines(
    agent: Agent, trace: Trace, name: str, rules: Rules | None = None
) -> list[Text]:
    """Return the history of one known tool: whether and since when it is offered, its rank in each search, its
    calls.
    """
    catalog = agent._runtime.tools
    offered = name in {tool.name for tool in agent.offered_tools()}
    lines = [
        Text.assemble(
            (name, "tool"), f" {_standing(agent, trace, name, offered=offered)}"
        )
    ]
    for number, (request, search) in list(enumerate(trace.searches, start=1))[
        -MAX_SEARCHES:
    ]:
        place = await _place(agent, search, name)
        lines.append(
            Text(
                f'  search {number} (request {request}) "{safe_line(search.query, 80)}": {place}'
            )
        )
    if calls := trace.called.get(name):
        lines.append(
            Text(f"  called in request {', '.join(str(request) for request in calls)}")
        )
    elif offered:
        lines.append(Text("  never called"))
    decision = None
    if rules is not None:
        decision = decide(facts_of(catalog.known[name], {}), rules)
    if decision is not None and decision.verdict == "deny":
        lines.append(Text(f"  every call of it is denied: {decision}", "warning"))
    if not offered and not trace.searches and catalog.searching:
        lines.append(
            Text(
                "  the model has not searched yet; /find WORDS shows what it would find",
                "dim",
            )
        )
    if not offered:
        lines.append(
            Text(
                f"  --set always_load={name} offers it from the first request on", "dim"
            )
        )
    return lines


def _standing(agent: Agent, trace: Trace, name: str, *, offered: bool) -> str:
    catalog = agent._runtime.tools
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
    if agent.known_tools[name].server in search.connecting:
        return "its server was still connecting"
    result = await agent.search(search.query, RANKED)
    matches = result.matches
    cut_off = ""
    if result.how == "ranked" and matches:
        # If only words decide, a tool counts as found with at least half of the best score.
        by_words = all(reason.field != "meaning" for reason in matches[0].reasons)
        if by_words:
            cut_off = f"; cut-off {matches[0].score / 2:.1f}"
        else:
            cut_off = f"; best {matches[0].score:.1f}"
    place = next(
        (
            place
            for place, match in enumerate(matches, start=1)
            if match.tool.name == name
        ),
        None,
    )
    found = max(search.found, len(search.matches))
    if (
        place is None or place > found
    ):  # a longer ranking may end with tools that are only similar
        best = ""
        if search.matches:
            best = f"; the best was {safe_line(search.matches[0], 64)}"
        own = ""
        if place is not None:
            own = f" ({matches[place - 1].score:.1f}{cut_off})"
        weak = ""
        if len(search.matches) > search.found:
            weak = f" and {len(search.matches) - search.found} weak"
        return f"not among the {counted(search.found, 'tool')} found{weak}{own}{best}"
    match = matches[place - 1]
    if name in search.matches:
        shown = ""
    else:
        shown = f", below the {len(search.matches)} shown"
    reasons = ""
    if because(match):
        reasons = f": {safe_line(because(match), 80)}"
    return f"place {place} of {found} ({match.score:.1f}{cut_off}){shown}{reasons}"


def unknown_lines(
    agent: Agent, configuration: Configuration, rules: Rules, name: str
) -> list[Text]:
    """Return why no tool of that name is known: misspelt, hidden by its server's configuration, or its server is
    missing.
    """
    lines = [Text(unknown_tool(agent, name, LISTED), "warning")]
    for server, key in hiding_lists(configuration.enabled, name):
        where = ""
        if server.source:
            where = f" ({safe_line(server.source, 100)})"
        said = "may have it, but disabledTools hides it"
        if key == "enabledTools":
            said = "has enabledTools, and it is not among them"
        lines.append(Text(f"  {safe_line(server.name, 64)} {said}{where}"))
    if any(
        forbids(pattern, ToolDefinition(name, "", {}))
        for pattern in rules.patterns("deny")
    ):
        lines.append(Text("  a rule denies it anyway; /deny shows them"))
    disabled = [
        safe_line(server.name, 64)
        for server in configuration.servers.servers
        if server.disabled
    ]
    if disabled:
        lines.append(Text(f"  not asked, since disabled: {', '.join(disabled)}", "dim"))
    return [*lines, *not_connected_lines(agent)]
