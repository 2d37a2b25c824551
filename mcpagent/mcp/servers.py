"""All MCP servers of one agent: connected at once, the slow ones later, the broken ones named."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import InputError, ServerError
from mcpagent.events import Emit, Notice, ServerFailed, ServerLogged
from mcpagent.mcp.cache import ListCache
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists import PromptInfo, ResourceInfo, ToolsDifference, difference
from mcpagent.mcp.opening import Authenticate
from mcpagent.mcp.pins import PinStore
from mcpagent.mcp.status import ServerStatus
from mcpagent.mcp.toolset import AllowChange, McpToolset
from mcpagent.safe_text import safe_line
from mcpagent.tools import Tool, ToolOutput


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What all servers of one agent share.

    With a `cache`, a known server's lists are read from disk and it is started by its first call, or in the background
    where `eager` or its own configuration says so. With `pins`, a tool that its server changed since it was first used
    is called only where `allow_change` says so. `handlers` say what servers may ask of us (nothing without), or what
    one server may. `auth` gives the authentication for a remote server (`stored_sign_ins`). What servers write to their
    standard error goes to files in `log_folder` (`mcpagent.mcp.server_log.log_path`).
    """

    cache: ListCache | None = None
    eager: bool = False
    pins: PinStore | None = None
    allow_change: AllowChange | None = None
    handlers: Handlers | Callable[[ServerConfig], Handlers | None] | None = None
    auth: Authenticate | None = None
    log_folder: Path | None = None


TURNED_OFF = "it is turned off"
MOST_STARTS = 3
"""How often a server is started whose process ends before it can be used."""


class McpServers:
    """The servers of a configuration that are enabled and wanted, as toolsets sorted by name.

    Servers that cannot even be tried (an unset variable, say) have a status that says why. `on_late` is told of each
    server that connects after `open` has returned, `on_lost` of each that fails after it, `on_changed` of each whose
    tools are no longer what they were.
    """

    def __init__(
        self,
        config: ServersConfig,
        wanted: Sequence[ServerConfig],
        options: ServerOptions,
        *,
        emit: Emit,
        on_late: Callable[[McpToolset], None],
        on_lost: Callable[[str, str], None],
        on_changed: Callable[[McpToolset, ToolsDifference], None],
    ) -> None:
        self._emit = emit
        self._on_late = on_late
        self._late: set[str] = set()
        self._on_lost = on_lost
        self._unusable = {
            item.name: ServerStatus(item.name, state="failed", reason=item.reason) for item in config.problems
        }
        self._on_changed = on_changed
        self._options = options
        self._toolsets = {
            item.name: self._toolset(item, options) for item in sorted(wanted, key=lambda item: item.name)
        }
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._retrying: dict[str, asyncio.Task[None]] = {}
        self._ready: set[str] = set()

    def _toolset(self, config: ServerConfig, options: ServerOptions) -> McpToolset:
        toolset = McpToolset(
            config,
            emit=self._emit,
            cache=options.cache,
            eager=options.eager or config.eager,
            handlers=options.handlers(config) if callable(options.handlers) else options.handlers,
            auth=options.auth if config.url else None,
            pins=options.pins,
            allow_change=options.allow_change,
            log_folder=options.log_folder,
        )
        toolset.on_tools_changed = lambda difference: self._on_changed(toolset, difference)
        return toolset

    @property
    def toolsets(self) -> list[McpToolset]:
        """Those that are connected."""
        return [toolset for name, toolset in self._toolsets.items() if name in self._ready]

    def tools(self, server: str) -> list[Tool]:
        """What a connected server lists now."""
        return self._toolsets[server].bound_tools()

    def all_tools(self) -> list[Tool]:
        """What all connected servers listed, in the order of the servers' names."""
        return [tool for toolset in self.toolsets for tool in toolset.bound_tools()]

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """Each server by name, also those that failed or cannot be tried."""
        return {name: toolset.status for name, toolset in self._toolsets.items()} | self._unusable

    @property
    def unavailable(self) -> dict[str, str]:
        """Why each server that is not connected is not, in one line."""
        instead = {"connecting": "it is still connecting", "closed": TURNED_OFF}
        return {
            name: status.reason or instead.get(status.state, "")
            for name, status in self.statuses.items()
            if status.state in ("failed", "connecting", "closed")
        }

    async def open(self, startup_seconds: float | None) -> None:
        """Connects all at once and returns when each is ready or has failed, or after `startup_seconds`.

        Servers that need longer go on in the background, which is told unless nobody waits (0). A `required` one is
        always waited for; where it fails, its `ServerError` is raised. Every single wait is bounded by the server's own
        `connect_timeout_seconds`.
        """
        for status in self._unusable.values():
            self._emit(ServerFailed(status.name, status.reason))
        self._opening = {
            name: asyncio.create_task(self._enter(toolset), name=f"mcp-open-{name}")
            for name, toolset in self._toolsets.items()
        }
        if not self._opening:
            return
        required = [name for name, toolset in self._toolsets.items() if toolset.config.required]
        await asyncio.wait(self._opening.values(), timeout=startup_seconds)
        for name in required:
            await asyncio.wait({self._opening[name]})
            self._perhaps_again(name, self._opening[name])
            if (retry := self._retrying.get(name)) is not None:
                await asyncio.wait({retry})
            if name not in self._ready:
                self._opening[name].result()
        for name, task in self._opening.items():
            if not task.done():
                if startup_seconds != 0:
                    text = f'server "{name}" is still connecting; its tools join when it is ready'
                    self._emit(Notice(text, "warning"))
                self._late.add(name)
                task.add_done_callback(lambda task, name=name: self._arrived(name, task))  # type: ignore[misc]
            else:
                task.exception()  # it is in the server's status; taken here so that nobody misses it
                self._perhaps_again(name, task)

    # --- single servers ---

    @property
    def prompts(self) -> dict[str, tuple[PromptInfo, ...]]:
        """The prompts of each server that is connected or known and has some."""
        return {toolset.config.name: toolset.prompts for toolset in self.toolsets if toolset.prompts}

    @property
    def resources(self) -> dict[str, tuple[ResourceInfo, ...]]:
        """The resources and templates of each server that is connected or known and has some."""
        return {toolset.config.name: toolset.resources for toolset in self.toolsets if toolset.resources}

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> ToolOutput:
        """One prompt, filled in. Raises `InputError` where there is no such server, prompt, or argument."""
        toolset = self._known(server, "prompts")
        prompt = next((item for item in toolset.prompts if item.name == name), None)
        if prompt is None:
            raise InputError(f'server "{server}" has no prompt "{safe_line(name, 60)}"{_near(name, toolset.prompts)}')
        missing = [item.name for item in prompt.arguments if item.required and not arguments.get(item.name)]
        if missing:
            raise InputError(
                f'prompt "{safe_line(name, 60)}" needs {", ".join(safe_line(item, 60) for item in missing)}'
            )
        known = [item.name for item in prompt.arguments]
        if foreign := [item for item in arguments if item not in known]:
            takes = ", ".join(safe_line(item, 60) for item in known) or "none"
            what = f'prompt "{safe_line(name, 60)}" has no argument "{safe_line(foreign[0], 60)}"'
            raise InputError(f"{what}; it takes {takes}")
        return await toolset.get_prompt(name, arguments)

    async def read_resource(self, server: str, uri: str) -> ToolOutput:
        """What is behind a URI, also one that was not listed. Raises `InputError` where there is no such server."""
        return await self._known(server, "resources").get_resource(uri)

    async def complete(
        self, server: str, name: str, argument: str, value: str, known: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """What the server proposes for an argument of a prompt (`name`) or of a template (its URI) that begins so.

        `known` are arguments given already. Nothing where the server proposes nothing, or is not known.
        """
        toolset = self._toolsets.get(server)
        if toolset is None or server not in self._ready:
            return ()
        of = next((item for item in toolset.prompts if item.name == name), None) or next(
            (item for item in toolset.resources if item.uri == name), None
        )
        return () if of is None else await toolset.complete(of, argument, value, known)

    async def set_roots(self, server: str, folders: Sequence[str | Path]) -> None:
        """The folders that a server is told of, instead of those before; it is told that they changed.

        Raises `InputError` or `ServerError`.
        """
        await self._configured(server).set_roots(folders)

    async def subscribe(self, server: str, uri: str) -> None:
        """Has `ResourceUpdated` tell when the resource changes. Raises `InputError` or `ServerError`."""
        await self._known(server, "resources").subscribe(uri)

    async def unsubscribe(self, server: str, uri: str) -> None:
        """Takes a subscription back. Raises `InputError` or `ServerError`."""
        await self._known(server, "resources").unsubscribe(uri)

    def log(self, server: str) -> tuple[ServerLogged, ...]:
        """The last messages that a server sent of its own work. Raises `InputError`."""
        return self._configured(server).log

    async def restart(self, server: str) -> None:
        """Ends the server, where it runs, and starts it anew. Raises `InputError` or `ServerError`."""
        toolset = self._configured(server)
        await self._stop_opening(server)
        if toolset.status.state == "closed":
            toolset = self._toolsets[server] = self._toolset(toolset.config, self._options)
        await toolset.restart()
        if server not in self._ready:
            self._ready.add(server)
            self._on_late(toolset)

    async def turn_off(self, server: str) -> None:
        """Ends the server and withdraws its tools until it is restarted. Raises `InputError`."""
        toolset = self._configured(server)
        before = [tool.definition for tool in toolset.bound_tools()] if server in self._ready else []
        self._ready.discard(server)
        await self._stop_opening(server)
        await toolset.__aexit__(None, None, None)
        self._on_lost(server, TURNED_OFF)
        if before:
            self._on_changed(toolset, difference(server, before, ()))

    def _configured(self, server: str) -> McpToolset:
        toolset = self._toolsets.get(server)
        if toolset is not None:
            return toolset
        if (problem := self._unusable.get(server)) is not None:
            raise InputError(f'server "{safe_line(server, 60)}" cannot be started: {problem.reason}')
        near = get_close_matches(server, self._toolsets, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise InputError(f'no server "{safe_line(server, 60)}" is enabled{hint}')

    def _known(self, server: str, what: str) -> McpToolset:
        toolset = self._configured(server)
        if server in self._ready:
            return toolset
        reason = self.unavailable.get(server, TURNED_OFF)
        raise InputError(f'the {what} of server "{server}" are not known: {safe_line(reason)}')

    async def _enter(self, toolset: McpToolset) -> None:
        name = toolset.config.name
        await toolset.__aenter__()
        self._ready.add(name)
        if name in self._late:  # in the step in which it told that it is connected: who waits for that finds its tools
            self._on_late(toolset)

    async def _stop_opening(self, server: str) -> None:
        tasks = [task for tasks in (self._opening, self._retrying) if (task := tasks.get(server)) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _arrived(self, name: str, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._on_lost(name, str(error))
            self._perhaps_again(name, task)

    def _perhaps_again(self, name: str, first: asyncio.Task[None]) -> None:
        """A server whose process ended while it started is tried again, while the others are used already."""
        error = None if first.cancelled() else first.exception()
        if isinstance(error, ServerError) and error.exit_code is not None and name not in self._retrying:
            self._late.add(name)
            self._retrying[name] = asyncio.create_task(self._try_again(name), name=f"mcp-retry-{name}")

    async def _try_again(self, name: str) -> None:
        toolset = self._toolsets[name]
        for _ in range(2, MOST_STARTS + 1):  # told by `ServerConnecting`, and in the server's log
            with contextlib.suppress(ServerError):
                await self._enter(toolset)  # which waits longer each time, and tells
                return
        self._emit(Notice(f'server "{name}" did not start {MOST_STARTS} times; it stays down until it is restarted'))

    async def close(self) -> None:
        """Ends every connection and process, also of servers that are still connecting."""
        await asyncio.gather(*(self._stop_opening(name) for name in self._opening))
        await asyncio.gather(*(toolset.__aexit__(None, None, None) for toolset in self._toolsets.values()))


def _near(name: str, prompts: Sequence[PromptInfo]) -> str:
    near = get_close_matches(name, [item.name for item in prompts], n=3)
    return f"; did you mean {', '.join(safe_line(item, 60) for item in near)}?" if near else ""
