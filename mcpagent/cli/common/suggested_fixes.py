"""Suggest one fix for a failed server, from its last output, its configuration and the environment.

A server's output is third-party text: the fix repeats at most the name of a variable.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from mcpagent.cli.common.configuration import short_path
from mcpagent.config import ServerConfig
from mcpagent.config.spellings import KEYS
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import revealed
from mcpagent.values.events import ServerFailed

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,5}\b")
_WANTED = re.compile(
    r"required|not set|unset|missing|must be|must set|set the|please set|undefined|KeyError|not found|no such"
    r"|not provided|not defined|empty|expected|need",
    re.IGNORECASE,
)
_NO_PACKAGE = re.compile(
    r"\bE404\b|\bETARGET\b|is not in this registry|was not found in the package registry|No matching distribution"
    r"|pull access denied|manifest unknown",
    re.IGNORECASE,
)
_OUR_WORDS = re.compile(
    r"gave no answer|no answer|did not|neither answered|within \d|timed out|timeout",
    re.IGNORECASE,
)

_WRITTEN = re.compile(r'(?<=is a whole command line; )write "command": .+')

_MEANT = re.compile(r'is not on PATH; did you mean "([^"]+)"\?')

LAUNCHERS: Mapping[str, str] = {
    "npx": "install Node.js, which brings npx",
    "npm": "install Node.js, which brings npm",
    "node": "install Node.js",
    "bunx": "install Bun, which brings bunx",
    "deno": "install Deno",
    "uvx": "pip install uv, which brings uvx",
    "uv": "pip install uv",
    "pipx": "pip install pipx",
    "docker": "install Docker and start it",
    "podman": "install Podman",
}
"""Instructions for installing each program that starts servers."""


def fix_for(
    event: ServerFailed, config: ServerConfig, environ: Mapping[str, str]
) -> str:
    """Return the fix as a command or a change; never empty."""
    reason, words = event.reason, (event.reason, *event.stderr_tail)
    name = safe_line(shlex.quote(config.name), 64)
    if (written := _WRITTEN.search(reason)) is not None:
        return written[0]
    if config.openapi:
        return "look whether the document and the address of the API are right"
    if "is not on PATH" in reason:
        if meant := _MEANT.search(reason):
            return f'write "command": "{meant[1]}" in its entry'
        program = safe_line(shlex.quote(revealed(config.command)), 64)
        return LAUNCHERS.get(
            revealed(config.command),
            f'install {program}, or give its full path in "command"',
        )
    if (variable := missing_variable(words)) and not config.url:
        return _give_variable(variable, config, environ)
    if config.url and re.search(
        r"\b40[13]\b|unauthori[sz]ed|forbidden|sign.in", reason, re.IGNORECASE
    ):
        return f"mcpagent mcp login {name}"
    if config.url and "WRONG_VERSION_NUMBER" in reason:
        return "that server speaks no TLS: write http:// in its address"
    if config.url and re.search(r"HTTP 404|instead of JSON-RPC", reason):
        return "look whether the path of the address is right; many end in /mcp or /sse"
    if config.url and re.search(
        r"connect|refused|resolve|unreachable", reason, re.IGNORECASE
    ):
        return "look whether the address is right and the server runs"
    if _NO_PACKAGE.search("\n".join(words)) and config.command in LAUNCHERS:
        return (
            'look whether the name and the version of the package in "args" are right'
        )
    if _OUR_WORDS.search(reason):
        seconds = round(config.connect_timeout_seconds * 2)
        key = next(
            (key for key in KEYS["connect_timeout_seconds"] if key in config.written),
            "connect_timeout_seconds",
        )
        return f'if it only needs longer: "{key}": {seconds} in its entry'
    return look_command(config)


def look_command(config: ServerConfig) -> str:
    """Return the command that shows more about this server: `mcp test`, with the file if `--config` named it.

    A server of `--server` is in no file; its output is in its log.
    """
    name = safe_line(shlex.quote(config.name), 64)
    if config.scope:
        return f"mcpagent mcp test {name}"
    if not config.source:
        return f"mcpagent mcp logs {name}"
    file = short_path(config.source.rpartition(":")[0], Path.cwd())
    return f"mcpagent mcp test {name} --config {shlex.quote(file)}"


def missing_variable(lines: tuple[str, ...]) -> str:
    """Return the environment variable that these lines report as missing, or ""."""
    for line in reversed(lines):
        found = _VARIABLE.search(line[:500])
        if found is not None and _WANTED.search(line[:500]):
            return found[0]
    return ""


def _give_variable(name: str, config: ServerConfig, environ: Mapping[str, str]) -> str:
    """Return how to pass a variable to a server: servers receive only the variables that their entry names."""
    if name in config.env:
        return f"give {name} another value: mcpagent keys set {name}"
    entry = f'"env": {{"{name}": "${{{name}}}"}} in its entry'
    if environ.get(name):
        return entry
    return f"export {name}=...  and  {entry}"
