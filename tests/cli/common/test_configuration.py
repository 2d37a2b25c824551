"""The servers of a command: what `--server` names is identified by the folder too."""

from __future__ import annotations

from pathlib import Path

from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.options import Options
from mcpagent.mcp.lists.list_cache import config_fingerprint


def test_a_command_of_the_command_line_is_another_server_in_another_folder(tmp_path: Path) -> None:
    environ = {"MCPAGENT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}

    def fingerprint(folder: str, server: str) -> str:
        chosen = Options(environ=environ, folder=tmp_path / folder, server=(server,))
        [found] = load_configuration(chosen).enabled
        return config_fingerprint(found)

    local, remote = "n=python3 server.py", "n=https://example.com/mcp"
    assert fingerprint("a", local) != fingerprint("b", local), "an answer for one holds for the other"
    assert fingerprint("a", local) == fingerprint("a", local)
    assert fingerprint("a", remote) == fingerprint("b", remote), "an address is the same everywhere"
