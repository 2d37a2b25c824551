"""`/mcp`: list the servers; turn one on or off, restart it, read its log, add one."""

from __future__ import annotations

import asyncio
import shlex
from difflib import get_close_matches

from rich.text import Text

from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted, duration
from mcpagent.cli.screen.lines import column, reason
from mcpagent.cli.servers.server_commands import last_lines
from mcpagent.cli.servers.server_editing import unknown_server
from mcpagent.errors import AgentStateError, ConfigError, InputError, ServerError
from mcpagent.mcp.server_options import server_log_folder
from mcpagent.mcp.server_status import still_connecting
from mcpagent.mcp.transports.server_log import log_path
from mcpagent.utilities.text.safe_text import safe_line

LOG_LINES = 30
VERBS = ("on", "off", "restart", "logs", "add")


async def mcp(desk: ChatState, argument: str) -> None:
    """the servers and how they are; on|off|restart|logs NAME; add NAME COMMAND|URL"""
    verb, _, name = argument.partition(" ")
    name = name.strip()
    if verb == "add":
        await _add(desk, name)
        return
    if name and verb not in VERBS and (near := get_close_matches(verb, VERBS, n=1)):
        desk.warn(
            f"/mcp has no {safe_line(verb, 20)} - did you mean /mcp {near[0]} {safe_line(name, 60)}?"
        )
        return
    if verb not in VERBS or (not name and verb in desk.configuration.names):
        _show(desk, argument)
    elif not name:
        desk.say(f"which server? /mcp {verb} NAME")
    elif name not in desk.configuration.names:
        desk.warn(unknown_server(name, desk.configuration.names))
    elif verb == "logs":
        path = log_path(server_log_folder(desk.environ), name)
        lines = last_lines(path, LOG_LINES)
        desk.say(*(Text(f"  {safe_line(line, 300)}") for line in lines))
        if not lines:
            desk.say(f"{name} has written nothing to its standard error")
        desk.note(f"log  {path}")
    else:
        await desk.ready()
        await _switch(desk, verb, name)


async def _add(desk: ChatState, words: str) -> None:
    """Write a server into the user's file: `/mcp add NAME -- COMMAND ARGS` or `/mcp add NAME URL`."""
    from mcpagent.cli.servers.server_editing import NewServer, add_server

    try:
        name, *target = shlex.split(words)
    except ValueError:
        name, target = "", []
    target = target[1:] if target[:1] == ["--"] else target
    if not target:
        desk.say("write /mcp add NAME -- COMMAND ARGS, or /mcp add NAME https://...")
        return
    new = NewServer(name, target)
    try:
        await asyncio.to_thread(add_server, desk.options, new, "user", replace=False)
    except (ConfigError, InputError) as error:
        desk.warn(str(error))
        return
    desk.note(f"it joins {_next_start(desk)}")


def _next_start(desk: ChatState) -> str:
    """Return how to restart the chat; an empty chat is not stored."""
    if desk.agent.messages:
        return "at the next start: /exit, then mcpagent -c goes on with this chat"
    return "at the next start: /exit, then mcpagent"


async def import_(desk: ChatState, argument: str) -> None:
    """the servers of other programs; /import yes takes them over"""
    from mcpagent.cli.servers.importing.import_command import import_servers

    agrees = argument.strip().lower() == "yes"
    if argument.strip() and not agrees:
        desk.say("/import shows what would be imported, /import yes imports it")
        return
    code = await asyncio.to_thread(
        import_servers,
        desk.options,
        [],
        "user",
        dry_run=not agrees,
        replace=False,
    )
    if code != ExitCode.OK:
        return
    if agrees:
        desk.note(f"they join {_next_start(desk)}")
    else:
        desk.note("nothing was written; /import yes imports them")


async def _switch(desk: ChatState, verb: str, name: str) -> None:
    servers, glyphs = desk.agent.mcp, desk.terminal.glyphs
    if any(
        server.name == name and server.disabled
        for server in desk.configuration.servers.servers
    ):
        desk.warn(
            f'server "{name}" is disabled in its file; mcpagent mcp enable {name}, and start the chat again'
        )
        return
    if desk.before_close is not None and verb in ("off", "restart"):
        await desk.before_close(servers, [name])
    try:
        if verb == "off":
            await servers.turn_off(name)
            desk.say(
                Text.assemble(
                    (f"{glyphs.ok} ", "ok"),
                    f"{name} is off; /mcp on {name} starts it again",
                )
            )
            return
        if verb == "on" and desk.agent.servers[name].state in ("ready", "cached"):
            desk.say(f"{name} is on already; /mcp restart {name} starts it anew")
            return
        await servers.restart(name)
    except ServerError:
        return  # an event reports the failure
    except InputError as error:
        desk.warn(str(error))
        return
    status = desk.agent.servers[name]
    facts = f"{name} is on, {counted(status.tool_count, 'tool')}, connected in {duration(status.seconds)}"
    desk.say(Text.assemble((f"{glyphs.ok} ", "ok"), facts))


def _show(desk: ChatState, name: str) -> None:
    glyphs = desk.terminal.glyphs
    servers = {
        known: status
        for known, status in desk.agent.servers.items()
        if name in ("", known)
    }
    if name and not servers:
        near = get_close_matches(
            name, [*desk.configuration.names, *VERBS], n=1, cutoff=0.5
        )
        if near and near[0] in VERBS:
            desk.warn(
                f"/mcp has no {safe_line(name, 20)} - did you mean /mcp {near[0]} NAME?"
            )
        else:
            desk.warn(unknown_server(name, desk.configuration.names))
        return
    marks = {
        "ready": (glyphs.ok, "ok"),
        "cached": (glyphs.ok, "ok"),
        "failed": (glyphs.failed, "error"),
        "connecting": ("..", "dim"),
        "closed": ("-", "dim"),
    }
    width = max((len(name) for name in servers), default=0)
    for known, status in servers.items():
        facts = {
            "ready": f"{counted(status.tool_count, 'tool')}, connected in {duration(status.seconds)}",
            "cached": f"{counted(status.tool_count, 'tool')}, known from an earlier run, starts with its first call",
            "connecting": still_connecting(reason(known, status.reason)).removeprefix(
                "it is still "
            ),
            "failed": reason(known, status.reason),
            "closed": "off",
        }.get(status.state, status.state)
        mark = marks[status.state]
        if known in desk.configuration.untrusted:
            mark = marks["closed"]
        desk.say(
            Text.assemble(
                mark,
                " ",
                (column(safe_line(known, 64), width), "user"),
                f"  {facts}",
            )
        )
        for warning in status.warnings if name else ():
            desk.warn(f"  {glyphs.warning} {safe_line(warning, 300)}")
        if name:
            _show_offers(desk, known)
    disabled = [
        server.name for server in desk.configuration.servers.servers if server.disabled
    ]
    if disabled and not name:
        desk.note(f"disabled: {', '.join(safe_line(item, 64) for item in disabled)}")
    desk.note(desk.configuration.describe(desk.folder))


def _show_offers(desk: ChatState, name: str) -> None:
    """Print the prompts and resources of one server, with instructions to use them."""
    try:
        servers = desk.agent.mcp
    except AgentStateError:  # the server is not connected yet
        return
    for prompt in servers.prompts.get(name, ())[:LOG_LINES]:
        arguments = " ".join(f"{item.name}=" for item in prompt.arguments)
        desk.note(
            f"  /{safe_line(f'{name}:{prompt.name} {arguments}', 80)}  {safe_line(prompt.description, 80)}"
        )
    for resource in servers.resources.get(name, ())[:LOG_LINES]:
        desk.note(
            f"  @{safe_line(f'{name}:{resource.uri}', 100)}  {safe_line(resource.name, 60)}"
        )
