"""`mcpagent mcp login|logout`: sign in to a remote server in the browser, and sign out again."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rich.text import Text

from mcpagent.cli.approvals.key_commands import place_of_secret
from mcpagent.cli.approvals.project_trust import trusted_configuration
from mcpagent.cli.common.configuration import Configuration, load_configuration
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import Terminal, open_terminal, put
from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import token_store
from mcpagent.errors import InputError
from mcpagent.permissions.trust.consent import needs_consent
from mcpagent.utilities.text.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from mcpagent.mcp.auth.device import DeviceCode
    from mcpagent.mcp.auth.oauth import LoopbackPage

CLIENT_SECRET = "MCPAGENT_CLIENT_SECRET"  # noqa: S105 - a variable's name
OpenBrowser = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Login:
    """The request on the command line. `client_id` and `port` belong to a manually registered client.

    `by_code`: the user enters a code on another device.
    """

    name: str
    opens_browser: bool = True
    client_id: str | None = None
    port: int = 0
    by_code: bool = False


def log_in(
    login: Login, options: Options, *, open_browser: OpenBrowser = webbrowser.open
) -> ExitCode:
    """Sign in to one server, then connect to it, so that the report is accurate."""
    terminal = open_terminal(options.color)
    config = remote_server(login.name, load_configuration(options))
    if any(name.lower() == "authorization" for name in config.headers):
        raise InputError(
            f'server "{config.name}" has an Authorization header in its configuration, which is used'
        )
    if needs_consent(config):
        config = remote_server(login.name, trusted_configuration(options, terminal))
    browser = None
    if login.opens_browser and has_display(options.environ):
        browser = open_browser
    return asyncio.run(_log_in(login, config, options, terminal, browser))


async def _log_in(
    login: Login,
    config: ServerConfig,
    options: Options,
    terminal: Terminal,
    browser: OpenBrowser | None,
) -> ExitCode:
    from mcpagent.mcp.auth.sign_in_flow import (
        Registration,
        loopback_page,
        sign_in,
        sign_in_by_device,
    )
    from mcpagent.mcp.auth.stored_auth import StoredSignIn
    from mcpagent.mcp.server_link import ServerLink

    store = token_store(options.environ)
    if config.sign_in.is_unattended:
        async with ServerLink(config, auth=StoredSignIn(config, store)) as link:
            tools = len(link.bound_tools())
        terminal.done(
            f"{config.name} needs nobody to sign in ({config.sign_in.grant}): {counted(tools, 'tool')}"
        )
        return ExitCode.OK
    secret = options.environ.get(CLIENT_SECRET) or None
    client = None
    if login.client_id is not None:
        client = Registration(login.client_id, secret, login.port)
    pasting: list[asyncio.Task[None]] = []

    async def show(url: str) -> None:
        _show_page(url, config, terminal, browser)
        pasting.append(asyncio.create_task(_take_pasted(page, terminal)))

    if login.by_code:
        show_code = partial(_show_code, config, terminal)
        result = await sign_in_by_device(config, store, show_code, client)
    else:
        async with loopback_page(config, store, show, client) as page:
            try:
                result = await sign_in(config, store, page)
            finally:
                for task in pasting:
                    task.cancel()
                await asyncio.gather(*pasting, return_exceptions=True)
    if result.how == "not wanted":
        put(terminal.out, f"{config.name} wants no sign-in")
        return ExitCode.OK
    async with ServerLink(config, auth=StoredSignIn(config, store)) as link:
        tools = len(link.bound_tools())
    word = "already signed in to"
    if result.how == "now":
        word = "signed in to"
    terminal.done(f"{word} {config.name}: {counted(tools, 'tool')}")
    if result.moved:
        put(terminal.out, f"  {result.moved}", style="dim")
    if result.how == "now" and result.kept is not None:
        put(
            terminal.out,
            f"  the sign-in is kept in {place_of_secret(result.kept)}",
            style="dim",
        )
    return ExitCode.OK


async def _show_code(
    config: ServerConfig, terminal: Terminal, code: DeviceCode
) -> None:
    """Print the address of the page, and the code to enter there."""
    host = safe_line(urlsplit(code.verification_uri).hostname or "", 80)
    put(terminal.err, f"sign in to {safe_line(config.name, 64)} at {host}:")
    page = "".join(safe_text(code.verification_uri).split())
    terminal.err.print(Text(page), soft_wrap=True)
    put(terminal.err, f"and enter the code {safe_line(code.user_code, 100)}")
    if code.verification_uri_complete is not None:
        put(terminal.err, Text("or open, with the code in it:", "dim"))
        whole = "".join(safe_text(code.verification_uri_complete).split())
        terminal.err.print(Text(whole), soft_wrap=True)
    put(terminal.err, Text("waiting; Ctrl-C gives up", "dim"))


def _show_page(
    url: str, config: ServerConfig, terminal: Terminal, browser: OpenBrowser | None
) -> None:
    """Print the page's full address on one line, and open it in the browser, if there is one."""
    address = "".join(safe_text(url).split())
    host = safe_line(urlsplit(address).hostname or "", 80)
    put(terminal.err, f"sign in to {safe_line(config.name, 64)} at {host}:")
    terminal.err.print(Text(address), soft_wrap=True)
    if browser is not None:
        # Some browsers block the program that opens them, or print output.
        threading.Thread(
            target=browser, args=(address,), name="browser", daemon=True
        ).start()
        put(terminal.err, Text("the browser is being opened; Ctrl-C gives up", "dim"))
    elsewhere = "is the browser on another machine? paste the address here that it ends at, although it shows no page"
    put(terminal.err, Text(elsewhere, "dim"))


async def _take_pasted(page: LoopbackPage, terminal: Terminal) -> None:
    """Read lines from stdin until a line is the browser's final address."""
    async for line in _lines():
        problem = page.take(line) if line.strip() else ""
        if problem is None:
            return
        if problem:
            put(terminal.err, Text(problem, "warning"))


async def _lines() -> AsyncIterator[str]:
    """Yield lines of stdin as they arrive.

    A worker thread reads, because waiting differs between terminals, pipes and files. If no data arrive, the thread is
    abandoned; so it bypasses Python's buffers and their locks.
    """
    if sys.stdin is None or sys.stdin.closed:
        return
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        try:
            while piece := os.read(descriptor, 65_536):
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            loop.call_soon_threadsafe(pieces.put_nowait, b"")
        except (OSError, RuntimeError):
            return  # the page or the loop is closed, so no one reads the lines

    threading.Thread(target=read, name="stdin", daemon=True).start()
    held = b""
    while piece := await pieces.get():
        *lines, held = (held + piece).split(b"\n")
        held = held[-65_536:]
        for line in lines:
            yield line.decode("utf-8", "replace")
    yield held.decode("utf-8", "replace")


def log_out(name: str, options: Options) -> ExitCode:
    """Sign out of a server: a configured one by its name, any other by its address."""
    from mcpagent.mcp.auth.sign_in_flow import sign_out

    terminal = open_terminal(options.color)
    is_address = name.startswith(("http://", "https://"))
    if is_address:
        config = ServerConfig(name, url=name)
    else:
        config = remote_server(name, load_configuration(options))
    if needs_consent(config):
        config = remote_server(name, trusted_configuration(options, terminal))
    out = asyncio.run(sign_out(config, token_store(options.environ)))
    shown = safe_line(config.name, 120)
    said = {
        "revoked": "the sign-in is revoked there too",
        "not offered": "what was issued there stays valid until it ends",
        "failed": f"it could not be revoked there: {out.reason}",
    }
    if out.was_signed_in:
        terminal.done(f"signed out of {shown}; {said[out.revoked]}")
    else:
        put(terminal.out, f"{shown} was not signed in to")
    return ExitCode.OK


def remote_server(name: str, configuration: Configuration) -> ServerConfig:
    """Return the configured server of this name. Raises `InputError` if it is missing or not remote."""
    shown = safe_line(name, 64)
    for server in configuration.servers.servers:
        if server.name == name and server.url:
            return server
        if server.name == name and not server.disabled:
            raise InputError(
                f'server "{shown}" is a program on this machine; there is nothing to sign in to'
            )
        if server.name == name:
            raise InputError(
                f'server "{shown}" is disabled; mcpagent mcp enable {name}'
            )
    for problem in configuration.servers.problems:
        if problem.name == name:
            raise InputError(
                f'server "{shown}" cannot be used: {safe_line(problem.reason, 300)}'
            )
    if name.startswith(("http://", "https://")):
        address = safe_line(name, 100)
        raise InputError(
            f"no server is named {address}; add it first: mcpagent mcp add NAME {address}"
        )
    remote = [server.name for server in configuration.servers.servers if server.url]
    near = get_close_matches(name, remote, n=3) or remote[:3]
    raise InputError(
        f'no server "{shown}"; servers with an address: {", ".join(near) or "none"}'
    )


def has_display(environ: Mapping[str, str]) -> bool:
    """Return whether an opened browser would be visible: without a display, a text browser would take over the
    terminal.
    """
    if sys.platform in ("win32", "darwin") or environ.get("BROWSER"):
        return not environ.get("SSH_CONNECTION")
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
