"""The servers of a command: what `--server` names is identified by the folder too; a missing API is one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpagent.cli.app import run
from mcpagent.cli.common.configuration import load_configuration, short_path
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.lines import reason
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


@pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX paths")
def test_a_missing_document_of_an_api_is_one_line_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    (tmp_path / "petstore.yaml").touch()
    what = "name a file or the address of an OpenAPI document"
    for given, why in (("missing.json", ""), ("p=petstor.yaml", ' (did you mean "petstore.yaml"?)')):
        for command in (["-p", "hello"], ["tools", "list"]):
            assert run([*command, "--openapi", given]) == 3
            said = capsys.readouterr()
            assert said.out + said.err == f"error: --openapi {given.removeprefix('p=')}: not found{why}; {what}\n"


def test_a_path_is_shown_as_a_person_would_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    shown = [short_path(str(path), work) for path in (tmp_path, tmp_path / "x", work / "a.json", Path("/etc/hosts"))]
    assert shown == ["~", "~/x", "a.json", "/etc/hosts"]


def test_the_name_of_an_api_is_said_once() -> None:
    words = 'server "m": its OpenAPI document is not YAML in line 3'
    assert reason("m", words) == "its OpenAPI document is not YAML in line 3"
