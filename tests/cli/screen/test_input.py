"""Where the history of typed lines is."""

from __future__ import annotations

from pathlib import Path

from mcpagent.cli.screen.input import history_file
from mcpagent.utilities.filesystem.user_folders import state_folder


def test_the_history_is_where_the_platform_keeps_state_and_private(tmp_path: Path) -> None:
    assert state_folder({"MCPAGENT_HOME": "/h"}) == Path("/h/state")
    path = history_file({"MCPAGENT_HOME": str(tmp_path / "h")})
    assert path is not None
    assert path.stat().st_mode & 0o077 == 0
    (tmp_path / "file").touch()
    assert history_file({"MCPAGENT_HOME": str(tmp_path / "file")}) is None
