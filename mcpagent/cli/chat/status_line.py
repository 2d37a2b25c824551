"""The status line: offered and known tools, tokens, servers and cost; built-in, or from the user's own command."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.number_formats import money, saving, tokens
from mcpagent.cli.common.user_programs import output_of
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.errors import ConfigError
from mcpagent.mcp.server_status import ServerStatus
from mcpagent.models.base import tool_limits
from mcpagent.models.tool_changes_in_history import READER_NAMES
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Spent, Usage


@dataclass(frozen=True, slots=True)
class Status:
    """The data of the status line.

    Offered tools are those of the conversation, known tools those of all servers. `used` are the input tokens of the
    last request, `window` is their maximum. `spent` is the cost of this conversation, `total` that of all conversations
    of this process. `declined` are the servers to which the user did not agree.
    """

    model: str
    approve: str = "ask"
    servers: Mapping[str, ServerStatus] = field(
        default_factory=dict[str, "ServerStatus"]
    )
    offered: int = 0
    known: int = 0
    offered_tokens: int = 0
    known_tokens: int = 0
    used: int = 0
    window: int | None = None
    spent: Spent = field(default_factory=Spent)
    total: Spent = field(default_factory=Spent)
    declined: frozenset[str] = frozenset()

    @classmethod
    def of(cls, agent: Agent, approve: str, used: int, *, is_started: bool) -> Status:
        """Return the current status; before the agent has started, only the parts that do not need it."""
        if not is_started:
            return cls(agent._runtime.model.name, approve, agent.servers)
        tools = agent._runtime.tools
        offered = tools.offer()
        # A resumed conversation adds newly connected tools only at its next prompt.
        listed = agent._runtime.catalogs.listing_of(()).tools
        known, known_tokens = len(tools.known), tools.catalog.total_tokens()
        if len(listed) > known:
            known, known_tokens = (
                len(listed),
                sum(map(tools.catalog.tokens, listed)),
            )
        return cls(
            agent._runtime.model.name,
            approve,
            agent.servers,
            offered=len(offered),
            known=known + sum(tool.name in READER_NAMES for tool in offered),
            offered_tokens=sum(map(tools.catalog.tokens, offered)),
            known_tokens=known_tokens,
            used=used,
            window=window_of(agent),
            spent=agent._runtime.own_session.spent,
            total=agent.spent,
        )

    @property
    def most(self) -> int | None:
        """The context window in tokens; for a model not used yet, the known window of its name; or None."""
        return self.window or context_window_of(self.model)

    def count(self, *states: str) -> int:
        """Return the number of servers in one of these states, without the declined ones."""
        return sum(
            status.state in states
            for name, status in self.servers.items()
            if name not in self.declined
        )


def window_of(agent: Agent[Any]) -> int | None:
    """Return the context window in tokens: as configured, as reported by the model's server, or from the price
    table.
    """
    compaction, model = (
        agent._runtime.definition.options.compaction,
        agent._runtime.model,
    )
    chosen = None
    if compaction is not None:
        chosen = compaction.window_tokens
    return chosen or tool_limits(model).window_tokens or context_window_of(model.name)


@cache
def context_window_of(model: str) -> int | None:
    """Return the context window of the model in tokens; None if it is unknown."""
    from mcpagent.models.endpoints.endpoint import context_window

    provider, _, name = model.partition(":")
    return context_window(provider, name.partition("?")[0])


def status_line(status: Status, glyphs: Glyphs, width: int) -> str:
    """Return the status line.

    Example: ` model │ ctx 2% 4.1k/200k │ tools 3/527 · 0.6k of 100k (-99%) │ mcp 61 ok 8.. 1! │ $0.02 │ all $0.30 │ ask
    `. Drops fields from the right; the last one is the approval mode.
    """
    fields = [short_model(status.model)]
    if status.used:
        window = status.most
        share = ""
        if window:
            share = f"{100 * status.used / window:.0f}% {tokens(status.used)}/{tokens(window)}"
        fields.append(f"ctx {share or tokens(status.used)}")
    if status.known:
        less = saving(status.offered_tokens, status.known_tokens)
        rest = "tok"
        if less:
            rest = f"of {tokens(status.known_tokens)} ({less})"
        fields.append(
            f"tools {status.offered}/{status.known} {glyphs.dot} {tokens(status.offered_tokens)} {rest}"
        )
    if status.servers:
        fields.append(servers_field(status))
    spent = money(status.spent.dollars, known=status.spent.cost_known)
    total = money(status.total.dollars, known=status.total.cost_known)
    if status.spent.usage != Usage():
        fields.append(spent)
    if status.total.usage not in (Usage(), status.spent.usage) and total != spent:
        fields.append(f"all {total}")
    line = ""
    for item in (*fields, status.approve):
        if line:
            longer = f"{line} {glyphs.bar} {item}"
        else:
            longer = f" {item}"
        if cell_len(longer) + 1 > width:
            break
        line = longer
    return line + " "


def servers_field(status: Status) -> str:
    """Return `mcp 61 ok 8.. 1! 2 declined`: ready, connecting, failed, declined by the user."""
    ready, connecting, failed = (
        status.count("ready", "cached"),
        status.count("connecting"),
        status.count("failed"),
    )
    parts = []
    if ready or not connecting:
        parts = [f"{ready} ok"]
    if connecting:
        parts += [f"{connecting}.."]
    if failed:
        parts += [f"{failed}!"]
    if status.declined:
        parts += [f"{len(status.declined)} declined"]
    return "mcp " + " ".join(parts)


def status_document(status: Status, folder: str) -> dict[str, Any]:
    """Return the document that a user's own status line command receives on standard input.

    `model`, `workspace`, `cost` and `version` have the names that other agents use, so their scripts work unchanged.
    """
    from mcpagent.utilities.version import __version__

    names = ("offered", "known", "offered_tokens", "known_tokens")
    return {
        "schema": "mcpagent.status/1",
        "version": __version__,
        "cwd": folder,
        "workspace": {"current_dir": folder},
        "model": {"id": status.model, "display_name": short_model(status.model)},
        "context": {
            "tokens": status.used,
            "window": status.most if status.used else None,
        },
        "tools": {name: getattr(status, name) for name in names},
        "mcp": {
            "ready": status.count("ready", "cached"),
            "connecting": status.count("connecting"),
            "failed": status.count("failed"),
            "declined": len(status.declined),
        },
        "cost": {
            "total_cost_usd": status.spent.dollars,
            "known": status.spent.cost_known,
            "process_cost_usd": status.total.dollars,
        },
        "approve": status.approve,
    }


def short_model(name: str) -> str:
    """Return the model's own name, without its provider."""
    provider, _, model = name.partition(":")
    if provider == "offline":
        return provider
    return safe_line(model or provider, 40)


# -- Status line commands ----------------------------------------------------------------------------------------------

SECONDS = 1.0
PAUSE_SECONDS = 0.3
MAX_OUTPUT = 4_096


class StatusCommand:
    """Runs the user's status line command, stores its last output, and runs it again when its input has changed.

    It runs without a shell, at most once at a time and for at most `SECONDS`. The command comes from the user's own
    settings, never from a project's. `changed` is called when there is a new line. Raises `ConfigError` for an invalid
    command.
    """

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        folder: Path,
        changed: Callable[[], None],
    ) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(
                f"statusLine: {error}; check the quotes in {safe_line(command, 80)}"
            ) from None
        if not self._words:
            raise ConfigError(
                "statusLine: the command is empty; take it out or name one"
            )
        self._environ = dict(environ)
        self._folder = folder
        self._changed = changed
        self._given = ""
        self._running: asyncio.Task[None] | None = None
        self.said: str | None = None
        """The last output line; None if the command printed nothing or failed."""
        self.problem = ""
        """The reason why the last run had no output, or ""."""

    def update(self, document: Mapping[str, Any]) -> None:
        """Run the command if the document has changed; returns at once."""
        given = json.dumps(document)
        if given == self._given or (
            self._running is not None and not self._running.done()
        ):
            return
        self._given = given
        self._running = asyncio.create_task(self._run(given), name="status-line")

    async def close(self) -> None:
        """Cancel running commands."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _run(self, given: str) -> None:
        before = self.said
        self.said, self.problem = await self._output(given)
        if self.said != before:
            self._changed()
        await asyncio.sleep(PAUSE_SECONDS)
        self._changed()  # display the changes that came meanwhile

    async def _output(self, given: str) -> tuple[str | None, str]:
        name = safe_line(self._words[0], 60)
        try:
            code, output = await output_of(
                self._words, given, SECONDS, folder=self._folder, environ=self._environ
            )
        except TimeoutError:  # TimeoutError is an OSError
            return None, f"statusLine: {name} took longer than {SECONDS:g} s"
        except OSError as error:
            return None, f"statusLine: {name} cannot be started: {error.strerror}"
        if code:
            return None, f"statusLine: {name} ended with exit code {code}"
        lines = output[:MAX_OUTPUT].decode("utf-8", "replace").splitlines()
        return (safe_line(lines[0], 300) if lines else ""), ""
