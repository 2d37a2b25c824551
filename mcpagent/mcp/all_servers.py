"""All MCP servers of one agent: they connect concurrently, slow ones join later, and failures are reported."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import InputError, ServerError
from mcpagent.mcp import prompts_and_resources as offers
from mcpagent.mcp.lists.server_lists import (
    PromptInfo,
    ResourceInfo,
    ToolsDifference,
    difference,
)
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_notifications import ServerNews
from mcpagent.mcp.server_options import ServerOptions, unattended_sign_in
from mcpagent.mcp.server_status import LifeCycleState, ServerStatus, still_connecting
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Emit, Notice, ServerFailed, ServerLogged
from mcpagent.values.tools import Tool, ToolOutput

TURNED_OFF = "it is turned off"
MOST_STARTS = 3
"""Maximum number of start attempts for a server whose process ends during startup."""


def joins_later(server: str) -> Notice:
    """Return the notice that the agent's start no longer waits for this server."""
    return Notice(
        f'server "{server}" is still connecting; its tools join when it is ready',
        "warning",
    )


class McpServers:
    """The enabled and selected servers of a configuration, as links sorted by name.

    Servers that cannot even be tried (because of a missing variable, for example) have a status with the reason.
    `on_late` is called for each server that connects after `open` has returned, `on_lost` for each that fails after
    that, and `on_changed` for each whose tools changed. `on_news` receives the other notifications of each server.
    """

    def __init__(
        self,
        config: ServersConfig,
        wanted: Sequence[ServerConfig],
        options: ServerOptions,
        *,
        emit: Emit,
        on_late: Callable[[ServerLink], None] = lambda _: None,
        on_lost: Callable[[str, str], None] = lambda *_: None,
        on_changed: Callable[[ServerLink, ToolsDifference], None] = lambda *_: None,
        on_news: Callable[[str, ServerNews], None] | None = None,
    ) -> None:
        self._emit = emit
        self._on_late = on_late
        self._on_lost = on_lost
        self._on_changed = on_changed
        self._on_news = on_news
        self._unusable = {
            item.name: ServerStatus(item.name, state="failed", reason=item.reason)
            for item in config.problems
        }
        ordered = sorted(wanted, key=lambda item: item.name)
        self._links = {item.name: self._link(item, options) for item in ordered}
        self._starts: dict[str, asyncio.Task[ServerError | None]] = {}
        self._waits: dict[str, tuple[float, float]] = {}
        """By server: the start time of its connection attempt, and the longest time that one prompt has waited for
        it.
        """
        self._has_opened = False

    def _link(self, config: ServerConfig, options: ServerOptions) -> ServerLink:
        return ServerLink(
            config,
            emit=self._emit,
            cache=options.cache,
            eager=options.eager or config.eager,
            handlers=options.handlers(config)
            if callable(options.handlers)
            else options.handlers,
            auth=(options.auth or unattended_sign_in) if config.may_sign_in else None,
            pins=options.pins,
            allow_change=options.allow_change,
            log_folder=options.log_folder,
            on_tools_changed=lambda change: self._on_changed(
                self._links[config.name], change
            ),
            on_news=partial(self._on_news, config.name) if self._on_news else None,
        )

    @property
    def links(self) -> Mapping[str, ServerLink]:
        """The servers that can be tried, by name."""
        return self._links

    @property
    def toolsets(self) -> list[ServerLink]:
        """The servers whose tools are known, connected or not."""
        return [link for link in self._links.values() if link.is_known]

    @property
    def lives(self) -> list[LifeCycleState]:
        """The state of each server; the same objects until something changes."""
        return [link.life for link in self._links.values()]

    def all_tools(self) -> list[Tool]:
        """Return the tools of all known servers, in the order of the servers' names."""
        return [tool for link in self.toolsets for tool in link.bound_tools()]

    @property
    def statuses(self) -> dict[str, ServerStatus]:
        """The status of each server by name, including failed and unusable ones."""
        return {
            name: link.status for name, link in self._links.items()
        } | self._unusable

    @property
    def configs(self) -> dict[str, ServerConfig]:
        """The configurations of the servers that can be tried, by name."""
        return {name: link.config for name, link in self._links.items()}

    @property
    def connecting(self) -> tuple[str, ...]:
        """The servers that are connecting and whose tools are not known yet."""
        found = [
            name
            for name, link in self._links.items()
            if link.life.state == "connecting" and not link.is_known
        ]
        return tuple(found)

    @property
    def unavailable(self) -> dict[str, str]:
        """For each server without available tools: the reason, in one line."""
        if not self._links and not self._unusable:
            return {}
        waited = self.connecting
        return {
            name: still_connecting(status.reason)
            if name in waited
            else status.reason or TURNED_OFF
            for name, status in self.statuses.items()
            if status.state in ("failed", "closed") or name in waited
        }

    # --- start and end of all servers

    async def open(self, startup_seconds: float | None) -> None:
        """Connect all servers concurrently; return when each is ready or has failed, or after `startup_seconds` (None:
        no limit).

        Slower servers and retries continue in the background, which is reported unless `startup_seconds` is 0. A
        `required` server is always awaited; if it fails, its `ServerError` is raised. Every single wait is limited by
        the server's own `connect_timeout_seconds`.
        """
        for status in self._unusable.values():
            self._emit(ServerFailed(status.name, status.reason))
        first_tries = {name: asyncio.Event() for name in self._links}
        for name, link in self._links.items():
            self._starts[name] = asyncio.create_task(
                self._start(link, first_tries[name]), name=f"mcp-start-{name}"
            )
            self._starts[name].add_done_callback(
                lambda _, name=name: first_tries[name].set()  # type: ignore[misc]
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(startup_seconds):
                for first_try in first_tries.values():
                    await first_try.wait()
        for name in [
            name for name, link in self._links.items() if link.config.required
        ]:
            await asyncio.wait({self._starts[name]})
            if (failure := self._starts[name].result()) is not None:
                raise failure
        self._has_opened = True
        for name, first_try in first_tries.items():
            if not first_try.is_set() and startup_seconds != 0:
                self._emit(joins_later(name))

    async def settle(
        self,
        limit: float | None,
        report: Callable[[tuple[str, ...]], None],
        *,
        spent: float = 0.0,
        enough: Callable[[], bool] = lambda: False,
    ) -> float:
        """Wait until no server is connecting any more, or `enough` returns True; return the seconds that it took.

        A prompt waits for at most `limit` seconds in total (None: no limit); `spent` seconds are already used. If an
        earlier prompt has waited that long for an attempt to connect, later prompts do not wait for it. `report`
        receives the awaited servers. Changed lists that are being read again are awaited as in a call.
        """
        if not self._links:
            return 0.0
        if limit is None:
            left = None
        else:
            left = max(limit - spent, 0.0)
        if left == 0 or not (
            self._awaited(limit) or self._reading
        ):  # a timer would keep the run waiting until it expires
            return 0.0
        started = time.monotonic()
        reported: tuple[str, ...] = ()
        begun: dict[tuple[str, float], float] = {}
        try:
            async with asyncio.timeout(left):
                while (waited := self._awaited(limit)) and not enough():
                    if begun:
                        now = time.monotonic()
                    else:
                        now = started
                    for name in waited:
                        begun.setdefault((name, self._links[name].since), now)
                    if waited != reported:
                        report(waited)
                        reported = waited
                    await _first_of([self._links[name].settled() for name in waited])
                reading = self._reading
                if not begun and not reading:
                    return 0.0
                await asyncio.gather(*(link.lists_settled() for link in reading))
        except TimeoutError:
            for (name, attempt), began in begun.items():
                self._count_wait(name, attempt, (left or 0.0) - (began - started))
        return time.monotonic() - started

    @property
    def _reading(self) -> list[ServerLink]:
        return [link for link in self._links.values() if link.is_reading]

    def has_waited(self, seconds: float) -> None:
        """Count a wait at the agent's start for the first prompt, for servers that are still connecting."""
        for name in self.connecting:
            self._count_wait(name, self._links[name].since, seconds)

    def _awaited(self, limit: float | None) -> tuple[str, ...]:
        """Return the connecting servers for which no prompt has waited as long as `limit` yet."""
        waits = {
            name: (self._links[name].since, self._waits.get(name, (0.0, 0.0)))
            for name in self.connecting
        }
        return tuple(
            name
            for name, (now, (attempt, waited)) in waits.items()
            if limit is None or attempt != now or waited < limit
        )

    def _count_wait(self, name: str, attempt: float, seconds: float) -> None:
        before, waited = self._waits.get(name, (0.0, 0.0))
        self._waits[name] = (
            attempt,
            max(seconds, waited) if before == attempt else seconds,
        )

    async def _start(
        self, link: ServerLink, first_try: asyncio.Event
    ) -> ServerError | None:
        """Enter a link; return the error if it fails, else None.

        If the server's process ends during startup, it is started again; other servers can be used meanwhile.
        """
        name = link.config.name
        for _ in range(MOST_STARTS):
            failure: ServerError | None = None
            try:
                await (
                    link.__aenter__()
                )  # each retry waits longer, and reports a failure
            except ServerError as error:
                failure = error
            is_first = not first_try.is_set()
            first_try.set()
            if failure is None:
                if (
                    self._has_opened
                ):  # at once after it is ready, so that listeners find its tools
                    self._on_late(link)
                return None
            if self._has_opened and is_first:
                self._on_lost(name, str(failure))
            if failure.exit_code is None:
                return failure
        self._emit(
            Notice(
                f'server "{name}" did not start {MOST_STARTS} times; it stays down until it is restarted'
            )
        )
        return failure

    async def _stop_starting(self, server: str) -> None:
        if (start := self._starts.get(server)) is not None:
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)

    async def close(self) -> None:
        """End every connection and process, including servers that are still connecting."""
        try:
            await asyncio.gather(*(self._stop_starting(name) for name in self._starts))
        finally:  # even if the waiting task is cancelled
            await asyncio.gather(
                *(link.__aexit__(None, None, None) for link in self._links.values())
            )

    # --- single servers

    @property
    def prompts(self) -> dict[str, tuple[PromptInfo, ...]]:
        """The prompts of each known server that has any."""
        return {
            link.config.name: link.lists.prompts
            for link in self.toolsets
            if link.lists.prompts
        }

    @property
    def resources(self) -> dict[str, tuple[ResourceInfo, ...]]:
        """The resources and URI templates of each known server that has any."""
        return {
            link.config.name: link.lists.resources
            for link in self.toolsets
            if link.lists.resources
        }

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str]
    ) -> ToolOutput:
        """Return one prompt with its arguments filled in. Raises `InputError` for an unknown server, prompt, or
        argument.
        """
        link = self._known(server, "prompts")
        prompts = {item.name: item for item in reversed(link.lists.prompts)}
        if (prompt := prompts.get(name)) is None:
            raise InputError(
                f'server "{server}" has no prompt "{safe_line(name, 60)}"{_near(name, prompts)}'
            )
        missing = [
            item.name
            for item in prompt.arguments
            if item.required and not arguments.get(item.name)
        ]
        if missing:
            raise InputError(
                f'prompt "{safe_line(name, 60)}" needs {", ".join(safe_line(item, 60) for item in missing)}'
            )
        known = [item.name for item in prompt.arguments]
        if foreign := [item for item in arguments if item not in known]:
            takes = ", ".join(safe_line(item, 60) for item in known) or "none"
            what = f'prompt "{safe_line(name, 60)}" has no argument "{safe_line(foreign[0], 60)}"'
            raise InputError(f"{what}; it takes {takes}")
        return await offers.get_prompt(link, name, arguments)

    async def read_resource(self, server: str, uri: str) -> ToolOutput:
        """Return the content at a URI, which need not be listed. Raises `InputError` for an unknown server."""
        return await offers.get_resource(self._known(server, "resources"), uri)

    async def complete(
        self,
        server: str,
        name: str,
        argument: str,
        value: str,
        known: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Return the server's completions of `value`, for an argument of a prompt (`name`) or of a template (its URI).

        `known` are the arguments already entered. Returns () if the server offers no completions, or is not known.
        """
        link = self._links.get(server)
        if link is None or not link.is_known:
            return ()
        of = next(
            (item for item in link.lists.prompts if item.name == name), None
        ) or next((item for item in link.lists.resources if item.uri == name), None)
        if of is None:
            return ()
        return await offers.complete(link, of, argument, value, known)

    async def set_roots(self, server: str, folders: Sequence[str | Path]) -> None:
        """Replace the folders reported to a server, which is notified of the change.

        Raises `InputError` or `ServerError`.
        """
        await self._configured(server).set_roots(folders)

    async def subscribe(self, server: str, uri: str) -> None:
        """From now on, emit `ResourceUpdated` when the resource changes. Raises `InputError` or `ServerError`."""
        await self._known(server, "resources").subscription(uri, wanted=True)

    async def unsubscribe(self, server: str, uri: str) -> None:
        """Cancel a subscription. Raises `InputError` or `ServerError`."""
        await self._known(server, "resources").subscription(uri, wanted=False)

    def log(self, server: str) -> tuple[ServerLogged, ...]:
        """Return the latest log messages of a server (`notifications/message`). Raises `InputError`."""
        return self._configured(server).log

    async def restart(self, server: str) -> None:
        """Stop the server if it is running, and start it. Raises `InputError` or `ServerError`."""
        link = self._configured(server)
        await self._stop_starting(server)
        was_known = link.is_known
        await link.restart()
        if not was_known:
            self._on_late(link)

    async def turn_off(self, server: str) -> None:
        """Stop the server and remove its tools until it is restarted. Raises `InputError`."""
        link = self._configured(server)
        before = []
        if link.is_known:
            before = [tool.definition for tool in link.bound_tools()]
        await self._stop_starting(server)
        await link.__aexit__(None, None, None)
        self._on_lost(server, TURNED_OFF)
        if before:
            self._on_changed(link, difference(server, before, ()))

    async def daemons(self, server: str) -> tuple[str, ...]:
        """Return the commands of the background processes that closing the server would end. Raises `InputError`."""
        return await self._configured(server).daemons()

    def keep_daemons(self, server: str) -> None:
        """Let a server's background processes outlive its next close, as with `keeps_running`. Raises `InputError`."""
        self._configured(server).keep_daemons()

    def _configured(self, server: str) -> ServerLink:
        link = self._links.get(server)
        if link is not None:
            return link
        if (problem := self._unusable.get(server)) is not None:
            raise InputError(
                f'server "{safe_line(server, 60)}" cannot be started: {problem.reason}'
            )
        raise InputError(
            f'no server "{safe_line(server, 60)}" is enabled{_near(server, self._links)}'
        )

    def _known(self, server: str, what: str) -> ServerLink:
        link = self._configured(server)
        if link.is_known:
            return link
        reason = self.unavailable.get(server, TURNED_OFF)
        raise InputError(
            f'the {what} of server "{server}" are not known: {safe_line(reason)}'
        )


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=3)
    if near:
        return f"; did you mean {', '.join(safe_line(item, 60) for item in near)}?"
    return ""


async def _first_of(waits: Sequence[Coroutine[None, None, None]]) -> None:
    """Wait until the first of these ends, and cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
