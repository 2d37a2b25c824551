"""`mcpagent permissions explain`: name the rule that decides on calls of a tool, and its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcpagent.cli.approvals.approver import label_of
from mcpagent.cli.approvals.changed_tools import (
    HOW_TO_ACCEPT,
    change_to_agree_to,
    reason_of,
)
from mcpagent.cli.approvals.project_trust import trusted_configuration
from mcpagent.cli.common.configuration import Configuration, short_path
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.common.settings import read_settings, settable
from mcpagent.cli.oneshot.agent_options import (
    known_tools,
    make_approver,
    option_rules,
)
from mcpagent.cli.screen.lines import Cell, table
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.cli.tools_command.tool_views import hiding_lists, meant_tool
from mcpagent.errors import InputError
from mcpagent.permissions.decision import CallFacts, Decision, decisions
from mcpagent.permissions.rule_matching import rule_of
from mcpagent.permissions.unused_rules import near_rules
from mcpagent.run.middleware.permission_gate import facts_of
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import Approval

if TYPE_CHECKING:
    from mcpagent.agents.agent import Agent
    from mcpagent.cli.common.options import Options

VERDICTS: Mapping[Approval, str] = {
    "allow": "runs unasked",
    "ask": "is asked about",
    "deny": "is denied",
}


def explain(options: Options, name: str, context: Any) -> ExitCode:
    """Run `mcpagent permissions explain`. Raises `InputError` if no tool, prompt or resource has this name."""
    return run_to_end(_explain(options, name, written_at(options, context)))


async def _explain(
    options: Options, name: str, place: Callable[[str, str], tuple[str, str]]
) -> ExitCode:
    terminal = open_terminal(options.color)
    configuration = trusted_configuration(options, terminal)
    async with known_tools(options, terminal, configuration) as agent:
        approver = make_approver(options, configuration, None)
        call = _meant(agent, configuration, name)
        change = None
        if call.tool.kind == "tool":
            change = await change_to_agree_to(call.tool, agent, options, configuration)
    written = option_rules(options, configuration, place)
    rules = replace(
        written,
        answers=approver.rules.answers,
        fingerprints=approver.rules.fingerprints,
    )
    found = list(decisions(call, rules))
    notes: list[Text] = []
    if change is not None:
        # A denied call is never asked about its changed tool, so that the denial comes first.
        found.insert(
            int(found[0].verdict == "deny"), Decision("ask", reason_of(change))
        )
        notes = [Text(f"  {HOW_TO_ACCEPT}", "dim")]
    first, *others = map(asdict, found)
    rows: list[list[Cell]] = []
    for one in found:
        word = ("  else", "dim") if rows else ("  decides", "dim")
        rows.append([word, VERDICTS[one.verdict], one.rule, _where(one, options)])
    label = label_of(call.tool)
    head = Text(f"{label} {VERDICTS[found[0].verdict]}")
    document = {"tool": label, **first, "else": others}
    terminal.report(options, document, head, *table(rows), *notes)
    return ExitCode.OK


def _where(decision: Decision, options: Options) -> str:
    place = decision.place
    if place:
        place = safe_line(short_path(place, options.folder), 200)
    return ", ".join(filter(None, [place, safe_line(decision.key, 140)]))


def _meant(agent: Agent, configuration: Configuration, name: str) -> CallFacts:
    """Return the facts about a call of the tool, prompt or resource that has this name in rules."""
    known = agent._runtime.tools.known
    content = [tool for tool in known.values() if tool.asks is not None]
    entries = tuple(rule for tool in content for rule in tool.rules)
    asked = agent._runtime.askable()
    for definition in asked:
        if definition.kind != "tool" and rule_of(definition) == name:
            return CallFacts(definition, rules=entries)
    found = meant_tool(agent, name)
    if found is None:
        for server, key in hiding_lists(configuration.enabled, name):
            place = safe_line(server.source, 200)
            raise InputError(
                f'permissions explain: no agent has "{safe_line(name, 80)}": {key} of the server'
                f' "{safe_line(server.name, 64)}" hides it ({place})'
            )
        own = [rule_of(tool) for tool in asked if tool.server == name]
        if own:
            raise InputError(
                f"permissions explain: {safe_line(name, 64)} is a server; name one of its tools, such as "
                f"{safe_line(own[0], 140)}"
            )
        hint = did_you_mean(
            near_rules(name, asked, 0.7), "mcpagent tools list names them"
        )
        raise InputError(
            f'permissions explain: nothing is named "{safe_line(name, 80)}"; {hint}'
        )
    return facts_of(known[found.name], {})


def written_at(options: Options, context: Any) -> Callable[[str, str], tuple[str, str]]:
    """Return a function that returns the place and key of a value of `allow`, `deny` or `approve`."""
    root = context.find_root().command
    settings = read_settings(options.folder, options.environ, settable(root))
    variables = {param.name: param.envvar for param in context.command.params}

    def place(name: str, value: str) -> tuple[str, str]:
        if name == "approve" and context.params.get("yes"):
            name = "yes"
        source = str(getattr(context.get_parameter_source(name), "name", ""))
        if source == "ENVIRONMENT":
            return f"env {variables[name]}", ""
        if source == "COMMANDLINE":
            return "the command line", ""
        named = [one for one in settings.written if one.name == name]
        for one in reversed(named):
            if source == "DEFAULT_MAP" and value in (one.value, *one.value):
                return f"{one.file}:{one.line}", name
        return "the default", ""

    return place
