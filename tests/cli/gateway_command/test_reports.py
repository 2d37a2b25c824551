"""`mcpagent gateway status` and `logs`, over a log that a gateway wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcpagent.cli.app import run
from mcpagent.gateway.gateway_log import GatewayEvent, GatewayLog

FOLDERS = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayLog:
    for name in FOLDERS:
        monkeypatch.setenv(name, str(tmp_path))
    return GatewayLog(tmp_path / "mcpagent" / "gateway")


def written(log: GatewayLog) -> None:
    log.add(GatewayEvent("start", time=1.0))
    log.add(GatewayEvent("start", pid=2**22 + 1, time=1.0))  # above the largest process ID of Linux
    log.add(GatewayEvent("list", client="cursor", known_tokens=90_000, listed_tokens=400, time=2.0))
    log.add(GatewayEvent("search", client="cursor", query="a note\x1b[2J", outcome="nothing", time=3.0))
    for seconds in (0.5, 0.1, 0.3):
        log.add(GatewayEvent("call", client="cursor", tool="git__log", outcome="answered", seconds=seconds, time=4.0))


def test_without_a_gateway_both_say_so(log: GatewayLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gateway", "status"]) == 0
    assert run(["gateway", "logs"]) == 0
    assert capsys.readouterr().out.splitlines() == ["running: none", "no gateway has run yet"]


def test_the_status_has_processes_tokens_times_and_failed_searches(
    log: GatewayLog, capsys: pytest.CaptureFixture[str]
) -> None:
    written(log)
    assert run(["gateway", "status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"running: {os.getpid()}",
        "saved for cursor: 89,600 tokens",
        "slow: git__log  0.300 s  3 calls",
    ]
    assert lines[3].startswith('found nothing: "a note')
    assert lines[3].endswith("1 times")
    assert "\x1b" not in lines[3]
    assert "mcpagent tools lint proposes" in lines[4]


def test_the_status_as_json_has_the_calls_by_outcome(log: GatewayLog, capsys: pytest.CaptureFixture[str]) -> None:
    written(log)
    assert run(["gateway", "status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calls"] == [{"tool": "git__log", "outcome": "answered", "calls": 3}]
    assert document["running"] == [os.getpid()]


def test_the_log_has_a_line_for_each_event(log: GatewayLog, capsys: pytest.CaptureFixture[str]) -> None:
    written(log)
    assert run(["gateway", "logs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert f"start process {os.getpid()}" in lines[0]
    assert "list cursor 400 of 90000 tokens listed" in lines[2]
    assert "call cursor git__log answered 0.500 s" in lines[4]
