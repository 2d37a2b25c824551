"""The documents of `--output json` and `stream-json` fit the schema that the docs hold, whatever happens in a run."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.oneshot.json_report import event_document
from mcpagent.cli.screen.terminal import Glyphs, Terminal, make_console, portable_json
from mcpagent.errors import CredentialsError, McpAgentError, ModelError
from mcpagent.models import ScriptedModel
from mcpagent.models.base import ModelResponse
from mcpagent.models.scripted import Reply
from mcpagent.values.events import ToolProgress
from mcpagent.values.messages import Message, Text, ToolCall, Usage
from tests.cli.event_schema import DOCUMENTS, page, schema
from tests.tables import each_row
from tests.terminal.process import ROOT, SMALL_SERVER

STRICT = Draft202012Validator(schema(strict=True))


def server(mode: str, name: str = "small") -> str:
    return f"{name}='{sys.executable}' '{SMALL_SERVER}' {mode}"


def documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replies: list[Reply], **changes: Any
) -> list[dict[str, Any]]:
    """What a run wrote to stdout, each document held against the schema."""
    chosen = Options(
        server=(server("good"),),
        environ={"MCPAGENT_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        folder=tmp_path,
        output="stream-json",
        approve="all",
    )
    silent = make_console(io.StringIO(), "auto", {})
    model = ScriptedModel(replies)
    with suppress(McpAgentError, TimeoutError):  # they are in the last document
        ask_once(replace(chosen, **changes), "question", Terminal(silent, silent, Glyphs()), model=model)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for document in found:
        STRICT.validate(document)
    assert found[0]["schema"] == "mcpagent.events/1"
    assert all("schema" not in document for document in found[1:])
    return found


NONE: dict[str, Any] = {"server": (), "config": (Path("none.json"),)}
"""No server, for what ends before or without a call."""

WEATHER = ToolCall("", "get_weather", {"city": "Rome"})
PAID = ModelResponse(Message("assistant", (ToolCall("1", "get_weather", {"city": "Oslo"}),)), Usage(9), "tool_calls")
ANSWER = ModelResponse(Message("assistant", (Text("18 degrees"),)), Usage(100, 7, 40, 0, 1), "end", 0.25)


def test_the_page_holds_the_schema_and_it_is_one() -> None:
    Draft202012Validator.check_schema(schema())
    written = (ROOT / "docs" / "events.schema.json").read_text("utf-8")
    assert written == page(), "old: python -m tests.cli.event_schema > docs/events.schema.json"


def test_an_answer_over_search_and_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies: list[Reply] = [
        ToolCall("", "search_tools", {"query": "weather"}),
        ToolCall("", "add_tool", {"tool_names": ["get_weather"]}),
        [WEATHER, ToolCall("", "fail_always", {}), ToolCall("", "no_such_tool", {})],
        ANSWER,
    ]
    found = documents(tmp_path, capsys, replies, tool_search="on")
    assert {document["type"] for document in found} == {
        *("init", "message", "context", "tool_use", "tool_result", "tool_search", "tools_loaded", "result")
    }
    search = next(document for document in found if document["type"] == "tool_search")
    loaded = next(document for document in found if document["type"] == "tools_loaded")
    assert search["matches"][0] == "get_weather"
    assert search["tokens"] >= loaded["tokens"] > 0  # of the tools it showed, one was added
    errors = {item["name"]: item["error"] for item in found if item["type"] == "tool_result" and item["is_error"]}
    assert errors == {"fail_always": "failed", "no_such_tool": "unknown_tool"}
    result = found[-1]
    everything = set(DOCUMENTS["result"].names) - {"error", "structured", "citations"}
    assert result.keys() == everything | {"type"}
    assert (result["cost_usd"], result["usage"]["output_tokens"], result["num_turns"]) == (0.25, 7, 4)


@each_row(
    "replies, changes, expected",
    [
        (
            [ToolCall("", "push_branch", {"remote": "o", "branch": "m"}), "denied"],
            {"server": (server("writes"),), "approve": "ask"},
            {"subtype": "denied", "is_error": True, "denials": ["--allow small.push_branch"]},
        ),
        (
            [ToolCall("", "push_branch", {"remote": "o", "branch": "m"}), "denied"],
            {"server": (server("writes"),), "deny": ("small.*",)},
            {"subtype": "denied", "is_error": True, "denials": [None]},
        ),
        (
            [ToolCall("", "push_branch", {"remote": "o", "branch": "m"}), "denied"],
            {"server": (server("writes"),), "deny": ("small.*",), "denied_ok": True},
            {"subtype": "success", "is_error": False, "denials": [None]},
        ),
        ([WEATHER, "what I know"], {"max_turns": 1}, {"subtype": "stopped_max_turns"}),
        ([ModelResponse(Message("assistant", ()), Usage(), "refusal")], NONE, {"subtype": "stopped_refused"}),
        ([PAID, "never"], {"max_tokens": 1}, {"subtype": "stopped_max_tokens"}),
        ([ModelError("down", provider="x", status=503)], NONE, {"error": "model"}),
        ([CredentialsError("no key")], NONE, {"error": "credentials"}),
        (["no JSON"] * 2, {**NONE, "json_schema": "schema.json"}, {"error": "answer"}),
        (["[1]"], {**NONE, "json_schema": "schema.json"}, {"structured": [1]}),
        (["x"], {"server": (server("good"), server("dies", "bad"))}, {"failed": ["bad"]}),
        (["x"], {"server": (server("dies", "bad"),)}, {"error": "server"}),
        ([], {"server": (server("sleeps", "slow"),), "timeout": 0.2}, {"error": "timeout"}),
        ([], {"server": ("nonsense",)}, {"error": "input"}),
        ([], {"config": (Path("missing.json"),)}, {"error": "config"}),
    ],
)
def test_every_end_of_a_run(
    replies: list[Reply],
    changes: dict[str, Any],
    expected: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "schema.json").write_text('{"type": "array"}', "utf-8")
    (tmp_path / "none.json").write_text('{"mcpServers": {}}', "utf-8")
    if "json_schema" in changes:
        changes = {**changes, "json_schema": tmp_path / changes["json_schema"]}
    if changes.get("config") == NONE["config"]:
        changes = {**changes, "config": (tmp_path / "none.json",)}
    for output in ("stream-json", "json"):
        found = documents(tmp_path, capsys, list(replies), output=output, **changes)
        result = found[-1]
        assert result["type"] == "result"
        assert [item["type"] for item in found].count("result") == 1
        if output == "json":
            assert len(found) == 1
        got = {
            "subtype": result["subtype"],
            "is_error": result["is_error"],
            "error": result.get("error", {}).get("kind"),
            "structured": result.get("structured"),
            "denials": [denial["allow"] for denial in result.get("denials", ())],
            "failed": [name for name, item in result.get("servers", {}).items() if item["state"] == "failed"],
        }
        assert {key: got[key] for key in expected} == expected


def test_a_failed_server_is_a_document_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = documents(tmp_path, capsys, ["x"], server=(server("good"), server("dies", "bad")))
    [error] = [document for document in found if document["type"] == "error"]
    assert error["server"] == "bad"
    assert "GITHUB_TOKEN is required" in error["message"]
    assert found[0]["type"] == "init"
    assert found[0]["servers"]["bad"]["state"] == "failed"


def test_an_estimate_and_progress_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [estimate] = documents(tmp_path, capsys, [], dry_run=True)
    assert estimate["type"] == "estimate"
    STRICT.validate(event_document(ToolProgress("s", "t", 1.5, None, "")))


def test_what_is_no_number_in_json_becomes_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    huge = ToolCall("", "get_weather", {"city": "Rome", "days": [float("inf"), float("nan"), 1.5]})
    chosen = {"output": "stream-json", "approve": "all"}
    found = documents(tmp_path, capsys, [huge, "x"], **chosen)
    used = next(document for document in found if document["type"] == "tool_use")
    assert used["input"] == {"city": "Rome", "days": [None, None, 1.5]}
    assert event_document(ToolProgress("s", "t", float("nan"), None, "")) is None
    progress = event_document(ToolProgress("s", "t", 1.0, float("inf"), ""))
    STRICT.validate(json.loads(portable_json(progress), parse_constant=pytest.fail))


def test_the_schema_refuses_what_is_no_document() -> None:
    good = {"type": "tools_removed", "names": ["a"]}
    STRICT.validate(good)
    for wrong in ({**good, "names": "a"}, {"type": "tools_removed"}, {"type": "other"}, {**good, "more": 1}):
        assert not STRICT.is_valid(wrong), wrong
    assert Draft202012Validator(schema()).is_valid({**good, "more": 1})
