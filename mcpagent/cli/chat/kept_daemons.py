"""Ask whether daemons that a server started may outlive it: a development server, tmux, the master of an ssh
connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from mcpagent.cli.approvals.project_trust import remember_added
from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.servers.server_editing import ServerFile, file_with, place_of
from mcpagent.config import ServerConfig
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import McpAgentError
from mcpagent.mcp.all_servers import McpServers
from mcpagent.utilities.text.safe_text import safe_line

MOST_SHOWN = 5
"""Maximum number of commands that the question names; the others are counted."""

QUESTION = "keep running? [y] yes  [a] always  [N] no: "


class DaemonQuestions:
    """The questions of one chat about daemons: at most one per server, before it closes.

    An entry with `keeps_running`, true or false, needs no question. `choose` asks the user for a line, and `say` prints
    one.
    """

    def __init__(
        self,
        options: Options,
        choose: Callable[[str], Awaitable[str]],
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._choose = choose
        self._say = say
        self._answers: dict[str, bool] = {}

    async def before_close(self, servers: McpServers, names: Sequence[str]) -> None:
        """Ask about the daemons of the servers that are about to be closed, and keep those that the user confirms."""
        for name in names:
            config = servers.configs.get(name)
            if config is None or _is_decided(config):
                continue
            commands = await servers.daemons(name)
            if commands and name not in self._answers:
                self._answers[name] = await self._ask(config, commands)
            if commands and self._answers[name]:
                servers.keep_daemons(name)

    async def _ask(self, config: ServerConfig, commands: Sequence[str]) -> bool:
        shown = [safe_line(command, 100) for command in commands[:MOST_SHOWN]]
        if len(commands) > MOST_SHOWN:
            shown.append(f"and {len(commands) - MOST_SHOWN} more")
        name = safe_line(config.name, 64)
        self._say(f'server "{name}" started programs that would end with it:')
        for line in shown:
            self._say(f"  {line}")
        answer = (await self._choose(QUESTION)).lower()
        while answer not in ("y", "yes", "a", "always", "n", "no", ""):
            self._say(f"{safe_line(answer, 40)!r} is no answer here")
            answer = (await self._choose(QUESTION)).lower()
        if answer in ("a", "always"):
            self._say(self._always(config))
        return answer in ("y", "yes", "a", "always")

    def _always(self, config: ServerConfig) -> str:
        """Write `keeps_running` into the server's entry; return a line with the location, or with the reason for a
        failure.
        """
        try:
            file = file_with(self._options, config.name, None)
            written = partial(_kept, name=config.name)
            place = place_of(file.saved(written), config.name, self._options.folder)
            for server in load_configuration(self._options).enabled:
                if server.name == config.name:
                    remember_added(server, self._options)
        except (McpAgentError, OSError) as error:
            return f"only this time: {safe_line(str(error), 200)}"
        return f'"keeps_running": true is in {place}'


def _kept(fresh: ServerFile, name: str) -> ServerFile:
    return fresh.with_setting(name, "keeps_running", True)


def _is_decided(config: ServerConfig) -> bool:
    keys = {KEY_OF_SPELLING.get(key) for key in config.written}
    return config.keeps_running or "keeps_running" in keys
