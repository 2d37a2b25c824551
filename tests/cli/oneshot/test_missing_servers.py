"""The offline stand-in without tools: which servers are missing, why, and the command that helps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.app import run

EMPTY = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"tools": []}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"name": "empty", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.slow
def test_each_server_without_tools_is_named_with_the_reason_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "empty.py").write_text(EMPTY, "utf-8")
    off: dict[str, Any] = {"command": "x", "disabled": True}
    empty: dict[str, Any] = {"command": sys.executable, "args": ["empty.py"]}
    down: dict[str, Any] = {"command": str(tmp_path / "gone")}

    def asked(*flags: str, **servers: Any) -> str:
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
        run(["-p", "what is the weather in Paris?", "-m", "offline", "-q", *flags])
        return capsys.readouterr().out

    head = "No tools are connected, so there is nothing I can do.\n\nTools of these servers are missing:\n"
    assert asked(off=off).startswith(f"{head}- off: it is disabled; mcpagent mcp enable off\n")
    refused = asked(web=empty, off=off)
    assert "- web: not trusted yet (.mcp.json:1); allow it: --trust-project, or say yes in mcpagent chat\n" in refused
    both = asked("--trust-project", empty=empty, down=down, off=off)
    assert (
        f'- down: could not start: "{tmp_path / "gone"}" does not exist; fix "command"; mcpagent mcp test down' in both
    )
    assert "- empty: it lists no tools; mcpagent mcp test empty shows what it offers\n" in both
    assert "- off: it is disabled" in both
    assert "missing" not in asked(), "the bundled server works"
