"""Test one server stage by stage: requirements, start, answers, lists."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.suggested_fixes import fix_for
from mcpagent.cli.servers.server_checks import (
    configuration_warnings,
    poisoned_instructions,
    poisoned_warnings,
    unusable_output_schemas,
)
from mcpagent.config import ServerConfig, ServerProblem
from mcpagent.errors import ServerError
from mcpagent.mcp.lists.shown_tools import ShownTool
from mcpagent.mcp.server_status import ServerState, still_connecting
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.events import ServerFailed

if TYPE_CHECKING:
    import httpx2

    from mcpagent.mcp.connection import McpConnection
    from mcpagent.mcp.lists.server_lists import ServerLists
    from mcpagent.mcp.server_notifications import ServerNews

    Auth: TypeAlias = Callable[[ServerConfig], httpx2.Auth | None]

StageName: TypeAlias = Literal[
    "config",
    "variables",
    "trust",
    "executable",
    "address",
    "spawn",
    "initialize",
    "list",
]


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """A stage of the test. `seconds` is None for a stage that takes no time; `detail` is one printable line."""

    name: StageName
    ok: bool
    detail: str = ""
    seconds: float | None = None


@dataclass(slots=True)
class Probe:
    """The outcome for one server. `fix` is the suggestion after a failure; `last_words` are the server's last lines of
    output.
    """

    name: str
    stages: list[ProbeStep] = field(default_factory=list[ProbeStep])
    required: bool = False
    source: str = ""
    protocol_version: str = ""
    era: Literal["", "modern", "legacy"] = ""
    title: str = ""
    capabilities: tuple[str, ...] = ()
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    tokens: int = 0
    warnings: list[str] = field(default_factory=list[str])
    fix: str = ""
    last_words: tuple[str, ...] = ()
    is_connecting: bool = False

    @property
    def state(self) -> ServerState:
        """The state that the server would have in a chat after the same time."""
        if self.ok:
            return "ready"
        if self.is_connecting:
            return "connecting"
        return "failed"

    @property
    def ok(self) -> bool:
        """True if the server can be used."""
        return self.failure is None

    @property
    def failure(self) -> ProbeStep | None:
        """The stage that failed, or None."""
        return next((stage for stage in self.stages if not stage.ok), None)

    def document(self) -> dict[str, Any]:
        """Return the document for `--json`."""
        failed = self.failure
        return {
            "state": self.state,
            "required": self.required,
            "source": self.source or None,
            "seconds": round(sum(stage.seconds or 0.0 for stage in self.stages), 3),
            "stages": {
                stage.name: {
                    "ok": stage.ok,
                    "seconds": None
                    if stage.seconds is None
                    else round(stage.seconds, 3),
                    "detail": stage.detail or None,
                }
                for stage in self.stages
            },
            **{
                key: getattr(self, key) or None
                for key in ("protocol_version", "era", "title")
            },
            "capabilities": list(self.capabilities),
            **{
                key: getattr(self, key)
                for key in ("tools", "prompts", "resources", "tokens")
            },
            "reason": failed.detail if failed else None,
            "fix": self.fix or None,
            "last_words": list(self.last_words),
            "warnings": list(self.warnings),
        }


def probe_of_problem(problem: ServerProblem, *, untrusted: bool) -> Probe:
    """Return the probe of a server that cannot be started: without consent, or with unset variables.

    In the latter case, the reason is `file:line:column: place in the file: what`; the first part becomes the source.
    """
    place, colon, rest = problem.reason.partition(": ")
    if untrusted or not colon:
        return Probe(
            problem.name,
            [ProbeStep("trust", ok=False, detail=safe_line(problem.reason, 300))],
        )
    source = place.rpartition(":")[0]
    what = rest.partition(": ")[2] or rest
    where = ProbeStep("config", ok=True, detail=safe_line(source, 200))
    return Probe(
        problem.name,
        [where, ProbeStep("variables", ok=False, detail=safe_line(what, 300))],
        source=source,
    )


async def probe(
    config: ServerConfig,
    environ: Mapping[str, str],
    log_folder: Path,
    auth: Auth | None = None,
    *,
    seconds: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Probe:
    """Start the server, query its capabilities and lists, and stop it. Raises only cancellation.

    With `seconds`, a server that may take longer to connect is then reported as connecting. `say` receives notes to the
    user during the test, one line each.
    """
    limit = None
    if seconds and seconds < config.connect_timeout_seconds:
        limit = seconds
    result = Probe(config.name, required=config.required, source=config.source)
    result.warnings += configuration_warnings(config)
    if config.source:
        result.stages.append(
            ProbeStep("config", ok=True, detail=safe_line(config.source, 200))
        )
    trial = _Trial(config, result, say)
    import_module(
        "mcpagent.mcp.connection"
    )  # loading the MCP SDK takes time that is not the server's
    try:
        async with asyncio.timeout(limit):
            await trial.run(environ, log_folder, auth)
    except TimeoutError:
        result.is_connecting = True
        result.stages.append(
            ProbeStep(
                trial.stage, ok=False, detail=still_connecting(), seconds=trial.seconds
            )
        )
        result.fix = f"--set server_wait={config.connect_timeout_seconds:g} waits as long as it may take"
    except ServerError as error:
        why = safe_line(str(error), 400).removeprefix(f'server "{config.name}" ')
        result.stages.append(
            ProbeStep(trial.stage, ok=False, detail=why, seconds=trial.seconds)
        )
        result.last_words = error.stderr_tail
        fix = fix_for(
            ServerFailed(config.name, str(error), error.stderr_tail), config, environ
        )
        if fix.startswith("mcpagent mcp test"):
            result.fix = ""
        else:
            result.fix = safe_line(fix, 200)
    return result


class _Trial:
    """The stages of one server, run in order."""

    def __init__(
        self, config: ServerConfig, result: Probe, say: Callable[[str], None]
    ) -> None:
        self.stage: StageName = "executable" if config.command else "address"
        self._say = say
        self._config = config
        self._result = result
        self._since: float | None = None

    @property
    def seconds(self) -> float | None:
        """The duration of the current stage so far; None for a stage that takes no time."""
        if self._since is None:
            return None
        return time.monotonic() - self._since

    async def run(
        self, environ: Mapping[str, str], log_folder: Path, auth: Auth | None
    ) -> None:
        from mcpagent.mcp.connection import McpConnection
        from mcpagent.mcp.lists.listing import list_server
        from mcpagent.permissions.trust.launches import launch_of

        config = self._config
        if config.command:
            found = launch_of(config, environ).program
        else:
            found = (config.address or str(config.openapi)).partition("?")[0]
        self._done(safe_line(found, 200))
        connection = McpConnection(
            config,
            self.report,
            era=config.era,
            environ=environ,
            auth=auth(config) if auth is not None and config.may_sign_in else None,
            log_folder=log_folder,
        )
        try:
            await self._open(connection)
            self._result.warnings += poisoned_instructions(
                without_secrets(connection.session.instructions or "")
            )
            self.stage, self._since = "list", time.monotonic()
            known = await list_server(connection, config, self.warn)
            self._take(known.lists)
        finally:
            await connection.close()

    async def _open(self, connection: McpConnection) -> None:
        """Run process start and handshake, separated by the time that the process took to start."""
        started = time.monotonic()
        self.stage, self._since = "initialize", started
        try:
            await connection.open()
        except ServerError as error:
            self._split_spawn(connection, started, failed=error.phase == "start")
            raise
        self._split_spawn(connection, started, failed=False)
        session, info = connection.session, connection.session.server_info
        result, can = self._result, connection.session.server_capabilities
        result.protocol_version = safe_line(session.protocol_version or "", 40)
        if connection.is_modern:
            result.era = "modern"
        else:
            result.era = "legacy"
        if info:
            name = [(info.title or info.name), info.version]
        else:
            name = []
        result.title = safe_line(without_secrets(" ".join(filter(None, name))), 100)
        if can:
            result.capabilities = tuple(
                key for key in type(can).model_fields if getattr(can, key)
            )
        else:
            result.capabilities = ()
        self._done(
            " ".join(
                filter(None, (result.protocol_version, f"({result.era})", result.title))
            )
        )

    def _split_spawn(
        self, connection: McpConnection, started: float, *, failed: bool
    ) -> None:
        if failed:
            self.stage = "spawn"
        elif self._config.command:
            spawn = connection.spawn_seconds
            self._result.stages.append(ProbeStep("spawn", ok=True, seconds=spawn))
            self._since = started + spawn

    def _take(self, lists: ServerLists) -> None:
        from mcpagent.tool_search.search_options import definition_tokens

        result = self._result
        result.tools, result.prompts, result.resources = (
            len(lists.tools),
            len(lists.prompts),
            len(lists.resources),
        )
        result.tokens = sum(
            definition_tokens(ShownTool.of(tool).definition) for tool in lists.tools
        )
        result.warnings += poisoned_warnings(lists.tools)
        result.warnings += unusable_output_schemas(lists.output_schemas)
        counts = [counted(result.tools, "tool")]
        if result.prompts:
            counts += [counted(result.prompts, "prompt")]
        if result.resources:
            counts += [counted(result.resources, "resource")]
        self._done(", ".join(counts))

    def _done(self, detail: str) -> None:
        self._result.stages.append(
            ProbeStep(self.stage, ok=True, detail=detail, seconds=self.seconds)
        )
        self._since = None

    def report(self, news: ServerNews) -> None:
        """Record the server's warnings, and report its silence at once; its log messages are in its log."""
        if news.kind == "warning":
            self.warn(news.text)
        elif news.kind == "silence":
            self._say(f'server "{safe_line(self._config.name, 64)}": {news.text}')

    def warn(self, text: str) -> None:
        if (line := safe_line(text, 300)) not in self._result.warnings:
            self._result.warnings.append(line)


async def probe_all(
    servers: Sequence[ServerConfig],
    environ: Mapping[str, str],
    log_folder: Path,
    auth: Auth | None,
    report: Callable[[Probe], None],
    *,
    seconds: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Probe]:
    """Test the servers concurrently, several per processor; `seconds` and `say` are as in `probe`.

    `report` receives each result in the order of the servers, as soon as all before it are complete.
    """
    room = asyncio.Semaphore(max(4, 2 * (os.cpu_count() or 1)))

    async def one(config: ServerConfig) -> Probe:
        async with room:
            return await probe(
                config, environ, log_folder, auth, seconds=seconds, say=say
            )

    probes: list[Probe] = []
    tasks = [asyncio.create_task(one(config)) for config in servers]
    try:
        for trying in tasks:
            probes.append(await trying)
            report(probes[-1])
    finally:
        for trying in tasks:
            trying.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return probes
