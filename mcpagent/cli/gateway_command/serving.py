"""`mcpagent gateway`: serve the user's servers to a client, over standard input and output or HTTP."""

from __future__ import annotations

import secrets
from dataclasses import replace

from mcpagent.cli.approvals.project_trust import untrusted_apart
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.common.options import Options
from mcpagent.cli.gateway_command.gateway_settings import GatewaySettings
from mcpagent.cli.oneshot.agent_options import make_approver
from mcpagent.cli.screen.terminal import Terminal, put
from mcpagent.gateway.gateway_log import log_folder
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.stdio_gateway import serve_stdio
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.utilities.filesystem.user_folders import cache_folder
from mcpagent.utilities.processes.freed_memory import return_freed_memory
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, Notice, ServerFailed

TOKEN_VARIABLE = "MCPAGENT_GATEWAY_TOKEN"  # noqa: S105 - its name


def serve_gateway(
    options: Options, terminal: Terminal, settings: GatewaySettings
) -> ExitCode:
    """Serve until the client closes standard input, or until Ctrl-C or SIGTERM over HTTP."""
    configuration = untrusted_apart(options, terminal)
    for name in sorted(configuration.untrusted):
        terminal.warn(
            f'server "{safe_line(name, 60)}" is not trusted, so not used; see mcpagent trust show'
        )
    return_freed_memory()
    return run_to_end(_serve(options, terminal, settings, configuration))


async def _serve(
    options: Options,
    terminal: Terminal,
    settings: GatewaySettings,
    configuration: Configuration,
) -> ExitCode:
    def report(event: Event) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            terminal.warn(safe_line(event.text, 300))
        elif isinstance(event, ServerFailed):
            terminal.warn(safe_line(event.reason, 300))

    servers = ServerOptions.stored(options.environ)
    if configuration.is_demo:  # the bundled server changes with the program itself
        servers = replace(servers, pins=None)
    given = gateway_options(options, settings, configuration)
    if settings.port is None:
        await serve_stdio(configuration.servers, servers, given, emit=report)
        return ExitCode.OK
    from mcpagent.gateway.http_gateway import HttpAccess, serve_http

    access = HttpAccess(
        host=settings.host,
        port=settings.port,
        token=_token(options, terminal, settings),
        names=settings.names,
        origins=settings.origins,
        issuer=settings.issuer,
        resource=settings.resource,
    )
    await serve_http(
        configuration.servers,
        servers,
        given,
        access,
        emit=report,
        started=lambda url: put(terminal.err, f"serving {url}"),
    )
    return ExitCode.OK


def _token(options: Options, terminal: Terminal, settings: GatewaySettings) -> str:
    """Return the token for clients over HTTP: the user's own, or a new one, which is printed once. "" with an
    issuer.
    """
    token = options.environ.get(TOKEN_VARIABLE, "")
    if token or settings.issuer:
        return token
    token = secrets.token_urlsafe(24)
    put(terminal.err, f"token: {token}  ({TOKEN_VARIABLE} sets one that stays)")
    return token


def gateway_options(
    options: Options, settings: GatewaySettings, configuration: Configuration
) -> GatewayOptions:
    """Return the gateway's options for the settings and rules of the command line."""
    approver = make_approver(options, configuration, None)
    return GatewayOptions(
        mode=settings.mode,
        modes=settings.modes,
        asking=settings.ask,
        idle_seconds=settings.idle_seconds,
        rules=lambda: approver.rules,
        pinned=settings.pinned,
        is_prefixed=settings.is_prefixed,
        search=ToolSearch(cache_folder=cache_folder(options.environ) / "search"),
        log=log_folder(options.environ),
    )
