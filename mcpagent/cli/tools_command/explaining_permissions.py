"""`mcpagent permissions explain`: which rule decides on calls of a tool, and where it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcpagent.cli.frame.configuration import load_configuration, short_path
from mcpagent.cli.frame.error_lines import did_you_mean
from mcpagent.cli.frame.exit_codes import ExitCode, run_to_end
from mcpagent.cli.frame.settings import read_settings, settable
from mcpagent.cli.may_run.approver import label_of
from mcpagent.cli.oneshot.agent_options import (
    askable,
    known_tools,
    make_approver,
    near_rules,
    option_rules,
)
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.cli.tools_command.tool_views import meant_tool
from mcpagent.errors import InputError
from mcpagent.permissions.rule_names import rule_of
from mcpagent.permissions.rules import CallFacts, Decision, decisions
from mcpagent.run.middleware.permission_gate import facts_of
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import Approval

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.frame.options import Options

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
    async with known_tools(options, terminal) as agent:
        configuration = load_configuration(options)
        approver = make_approver(options, configuration, None)
        call = _meant(agent, name)
    written = option_rules(options, configuration, place)
    rules = replace(
        written,
        answers=approver.rules.answers,
        fingerprints=approver.rules.fingerprints,
    )
    found = list(decisions(call, rules))
    first, label = found[0], label_of(call.tool)
    rows = [
        (
            "decides" if number == 0 else "else",
            VERDICTS[one.verdict],
            one.rule,
            _where(one, options),
        )
        for number, one in enumerate(found)
    ]
    document = {
        "tool": label,
        "verdict": first.verdict,
        "rule": first.rule,
        "place": first.place,
        "key": first.key,
        "else": [
            {
                "verdict": one.verdict,
                "rule": one.rule,
                "place": one.place,
                "key": one.key,
            }
            for one in found[1:]
        ],
    }
    head = Text(f"{label} {VERDICTS[first.verdict]}")
    terminal.report(
        options,
        document,
        head,
        *table([(f"  {word}", "dim"), *cells] for word, *cells in rows),
    )
    return ExitCode.OK


def _where(decision: Decision, options: Options) -> str:
    place = short_path(decision.place, options.folder) if decision.place else ""
    return ", ".join(
        filter(None, [safe_line(place, 200), safe_line(decision.key, 140)])
    )


def _meant(agent: Agent, name: str) -> CallFacts:
    """Return the facts about a call of what has this name: a tool, or a prompt or resource as rules write it."""
    known = agent._runtime.tools.known
    content = [tool for tool in known.values() if tool.asks is not None]
    entries = tuple(rule for tool in content for rule in tool.rules)
    asked = askable(agent)
    for definition in asked:
        if definition.kind != "tool" and rule_of(definition) == name:
            return CallFacts(definition, rules=entries)
    found = meant_tool(agent, name)
    if found is None:
        hint = did_you_mean(near_rules(name, asked), "mcpagent tools list names them")
        raise InputError(
            f'permissions explain: nothing is named "{safe_line(name, 80)}"; {hint}'
        )
    return facts_of(known[found.name], {})


def written_at(options: Options, context: Any) -> Callable[[str, str], tuple[str, str]]:
    """Return a function that gives the place and key of a value of `allow`, `deny` or `approve`."""
    root = context.find_root().command
    settings = read_settings(options.folder, options.environ, settable(root))
    variables = {param.name: param.envvar for param in context.command.params}

    def place(name: str, value: str) -> tuple[str, str]:
        source = str(getattr(context.get_parameter_source(name), "name", ""))
        if name == "approve" and context.params.get("yes"):
            name, source = (
                "yes",
                str(getattr(context.get_parameter_source("yes"), "name", "")),
            )
        if source == "ENVIRONMENT":
            return f"env {variables[name]}", ""
        if source == "DEFAULT_MAP":
            lines = [
                one
                for one in settings.written
                if one.name == name and value in (one.value, *_items(one.value))
            ]
            return (f"{lines[-1].file}:{lines[-1].line}", name) if lines else ("", "")
        return ("the command line" if source == "COMMANDLINE" else "the default"), ""

    return place


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()
