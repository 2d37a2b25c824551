"""Where the history of typed lines is."""

from __future__ import annotations

from pathlib import Path

from mcpagent.cli.screen.input import Pastes, StoredHistory, history_file
from mcpagent.utilities.filesystem.user_folders import state_folder


def test_the_history_is_where_the_platform_keeps_state_and_private(tmp_path: Path) -> None:
    assert state_folder({"MCPAGENT_HOME": "/h"}) == Path("/h/state")
    path = history_file({"MCPAGENT_HOME": str(tmp_path / "h")})
    assert path is not None
    assert path.stat().st_mode & 0o077 == 0
    (tmp_path / "file").touch()
    assert history_file({"MCPAGENT_HOME": str(tmp_path / "file")}) is None


def test_a_long_paste_is_shown_as_a_mark_and_sent_whole(tmp_path: Path) -> None:
    pastes = Pastes()
    short, long = "a\r\nb", "\r".join(f"line {number}" for number in range(2_000))
    assert pastes.folded(short) == "a\nb"
    first, second = pastes.folded(long), pastes.folded(long.upper())
    assert (first, second) == ("[paste 1: 2,000 lines]", "[paste 2: 2,000 lines]")
    assert Pastes().folded(f"{long}\n") == first, "the end of the last line begins no other"
    typed = f"compare {second} with {first}, please"
    whole = long.replace("\r", "\n")
    assert pastes.unfolded(typed) == f"compare {whole.upper()} with {whole}, please"
    assert pastes.unfolded(typed) == pastes.unfolded(typed), "a line that is recalled has its text again"
    history = StoredHistory(str(tmp_path / "history"))
    history.unfolded = pastes.unfolded
    history.store_string(first)
    assert list(history.load_history_strings()) == [whole]


def test_the_file_of_typed_lines_holds_no_secret_and_the_session_recalls_the_line_unchanged(tmp_path: Path) -> None:
    history = StoredHistory(str(tmp_path / "history"))
    key = "ghp_" + "a1B2" * 9
    history.append_string(f"push with {key}")
    assert key not in (tmp_path / "history").read_text()
    assert "push with" in (tmp_path / "history").read_text()
    assert history.get_strings() == [f"push with {key}"]
