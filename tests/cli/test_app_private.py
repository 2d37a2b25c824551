"""What the command keeps to its user: its folders from others, and secrets from its logs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcpagent.cli.app import run
from mcpagent.utilities.filesystem.user_folders import own_folders
from tests.tables import each_row
from tests.terminal.small_model import small_model
from tests.terminal.warm import run as run_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX permissions")


@each_row("mode", [0o777, 0o770, 0o755, 0o1777])
def test_own_folders_that_others_may_write_into_are_taken_back(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    for folder in own_folders(os.environ):
        folder.mkdir(parents=True)
        folder.chmod(mode)
    (tmp_path / "home").chmod(0o777)  # what stands above is not ours
    assert run(["permissions", "list"]) == 0
    modes = {folder.stat().st_mode & 0o777 for folder in own_folders(os.environ)}
    assert modes == {0o755 if mode == 0o755 else 0o700}
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o777


def test_a_folder_that_was_deleted_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in (["-p", "hello", "-q"], ["tools", "list"], ["doctor"]):
        assert run(command) == 2, command
        assert capsys.readouterr().err == "error: the current folder was deleted or moved; cd into another one\n"


@pytest.mark.slow
def test_t7_debug_shows_no_secret_in_what_libraries_log_or_in_a_traceback(tmp_path: Path) -> None:
    secrets = {
        "MY_KEY": "plain-key-000111222",
        "OPENAI_CUSTOM_HEADERS": "X-Gateway-Token: gateway-333444",
        "GATEWAY_TOKEN": "gateway-333444",
        "OPENAI_LOG": "debug",
    }
    with small_model() as spec:
        address = spec.partition("base_url=")[2].partition("&")[0].replace("http://", "http://ann:pass-555666@")
        model = f"openai-chat:small?base_url={address}&api_key_env=MY_KEY"
        good = run_process(["-p", "hello plain-key-000111222", "-m", model, "--debug"], tmp_path, env=secrets)
        bad = run_process(["-p", "x", "-m", f"{model[:-6]}MISSING", "--debug"], tmp_path, env=secrets)
        worse = run_process(["-p", "x", "-m", model.replace("base_url=http", "base_url=ftp")], tmp_path, env=secrets)
    assert good.returncode == 0
    assert "openai" in good.stderr  # the SDK's log is there
    for done in (good, bad, worse):
        for secret in ("plain-key-000111222", "gateway-333444", "pass-555666"):
            assert secret not in done.stderr
    assert bad.returncode != 0
    assert "Traceback" in bad.stderr
    assert "not an address" in worse.stderr
    logs = [path.read_text("utf-8", "replace") for path in (tmp_path / "home" / "state").rglob("*.log*")]
    assert not any("plain-key-000111222" in log for log in logs)
