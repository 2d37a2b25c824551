"""`mcpagent` in pipes: what stands on stdout and stderr, byte for byte, and the exit code."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.app import run as run_command_line
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.terminal import Glyphs, Terminal, make_console
from mcpagent.cli.servers.server_commands import list_servers, run_server_test
from mcpagent.cli.tools_command.tool_commands import list_tools, search_tools, show_tool
from mcpagent.errors import InputError, ModelError
from mcpagent.models import ScriptedModel
from mcpagent.models.base import ModelResponse
from mcpagent.values.messages import Message, Text, ToolCall, Usage
from tests.cli.event_schema import DOCUMENTS
from tests.tables import each_row
from tests.terminal.process import ROOT, SMALL_SERVER, environment, heed_ctrl_c, server_option
from tests.terminal.warm import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX pipes")


# --- with a scripted model, in this process ---------------------------------------------------------------------------


class Pipes:
    """Stands for stdout and stderr that are no terminals; `err` collects."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.err = io.StringIO()
        self.terminal = Terminal(make_console(io.StringIO(), "auto", {}), make_console(self.err, "auto", {}), Glyphs())

    def ask(self, options: Options, model: ScriptedModel, prompt: str = "question") -> ExitCode:
        return ask_once(options, prompt, self.terminal, model=model)

    @property
    def out(self) -> str:
        return self.capsys.readouterr().out


@pytest.fixture
def pipes(capsys: pytest.CaptureFixture[str]) -> Pipes:
    return Pipes(capsys)


def options(tmp_path: Path, **changes: Any) -> Options:
    """Options with the small server as the only one and without the user's configuration."""
    server = (f"small='{sys.executable}' '{SMALL_SERVER}' good",)
    return replace(
        Options(server=server, environ={"MCPAGENT_HOME": str(tmp_path), "PATH": os.environ["PATH"]}, folder=tmp_path),
        **changes,
    )


def test_stdout_is_the_answer_and_nothing_else(pipes: Pipes, tmp_path: Path) -> None:
    answer = "# Titel\n\x1b[31mäöü\x1b[0m [bold]x[/bold] :smile:"
    assert pipes.ask(options(tmp_path), ScriptedModel([answer])) == ExitCode.OK
    assert pipes.out == "# Titel\näöü [bold]x[/bold] :smile:\n"
    assert pipes.err.getvalue() == ""


def test_an_answer_in_a_pipe_has_no_links_and_nothing_that_moves_or_hides(pipes: Pipes, tmp_path: Path) -> None:
    answer = "\x1b]8;;http://e\x07see\x1b]8;;\x07 \x9d8;;x\x9c\u202e\u200b می‌خواهم 👩\u200d💻\r\n\tcode"
    assert pipes.ask(options(tmp_path), ScriptedModel([answer])) == ExitCode.OK
    assert pipes.out == "see  می‌خواهم 👩\u200d💻\r\n\tcode\n"


def test_a_final_line_break_is_not_doubled(pipes: Pipes, tmp_path: Path) -> None:
    pipes.ask(options(tmp_path), ScriptedModel(["one\n"]))
    assert pipes.out == "one\n"


def test_verbose_tells_each_step_on_stderr(pipes: Pipes, tmp_path: Path) -> None:
    script = ScriptedModel([[ToolCall("", "get_weather", {"city": "Tokyo"}), ToolCall("", "fail_always", {})], "done"])
    assert pipes.ask(options(tmp_path, verbose=True, allow=("small.*",)), script) == ExitCode.OK
    lines = pipes.err.getvalue().splitlines()
    assert lines[0] == "scripted:test · 1 server from --server"
    assert "● 2 calls at the same time" in lines
    # They stand in the order in which they end, which nobody can know.
    assert any(line.startswith(("  ├ ● small.get_weather  city=Tokyo", "  └ ● small.get_weather")) for line in lines), (
        lines
    )
    assert any(line.startswith(("  └ ✗ small.fail_always", "  ├ ✗ small.fail_always")) for line in lines), lines
    assert "      line 4" in lines
    assert not any("line 5" in line for line in lines)
    assert any("… 3 more lines" in line for line in lines)
    assert "2 requests" in lines[-1]
    assert pipes.out == "done\n"


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_stream_json_tells_everything_in_order(pipes: Pipes, tmp_path: Path) -> None:
    script = ScriptedModel(
        [
            ToolCall("", "search_tools", {"query": "weather"}),
            ToolCall("", "add_tool", {"tool_names": ["get_weather"]}),
            ToolCall("", "get_weather", {"city": "Tokyo"}),
            ModelResponse(Message("assistant", (Text("18 degrees"),)), Usage(100, 7, 40, 0, 1), "end"),
        ]
    )
    chosen = options(tmp_path, output="stream-json", tool_search="on", allow=("small.*",))
    assert pipes.ask(chosen, script) == ExitCode.OK
    told = documents(pipes.out)
    assert [item["type"] for item in told] == [
        *("init", "message"),
        *("context", "message", "tool_use", "tool_result", "tool_search"),
        *("context", "message", "tool_use", "tool_result", "tools_loaded"),
        *("context", "message", "tool_use", "tool_result"),
        *("context", "message", "result"),
    ]
    for item in told:
        assert item.keys() - {"type", "schema"} <= set(DOCUMENTS[item["type"]].names), item
    assert told[0]["schema"] == "mcpagent.events/1"
    assert told[0]["servers"]["small"]["state"] == "ready"
    assert told[0]["tools"] == {"known": 4, "offered": ["search_tools", "add_tool"]}
    assert not any("schema" in item for item in told[1:])
    search = next(item for item in told if item["type"] == "tool_search")
    assert search["matches"][0] == "get_weather"
    result = told[-1]
    assert result["result"] == "18 degrees"
    assert (result["subtype"], result["is_error"], result["num_turns"]) == ("success", False, 4)
    assert result["usage"]["input_tokens"] == 100
    assert result["tools"]["total"] == 4
    assert result["tools"]["sent_max"] == 3
    assert result["tools"]["schema_tokens_sent"] > 0


def test_json_is_one_document(pipes: Pipes, tmp_path: Path) -> None:
    assert pipes.ask(options(tmp_path, output="json"), ScriptedModel(["ä\ud800"])) == ExitCode.OK
    [document] = documents(pipes.out)
    assert document["type"] == "result"
    assert document["schema"] == "mcpagent.events/1"
    assert document["result"] == "ä\ud800"


def test_a_failing_model_is_a_document_too(pipes: Pipes, tmp_path: Path) -> None:
    script = ScriptedModel([ModelError("the provider is down", provider="x", status=503)])
    with pytest.raises(ModelError):
        pipes.ask(options(tmp_path, output="json"), script)
    [document] = documents(pipes.out)
    assert document["is_error"]
    assert document["error"] == {"kind": "model", "message": "the provider is down", "exit_code": 1}


def test_a_limit_gives_the_answer_and_its_own_code(pipes: Pipes, tmp_path: Path) -> None:
    script = ScriptedModel([ToolCall("", "get_weather", {"city": "Tokyo"}), "what I know"])
    assert pipes.ask(options(tmp_path, max_turns=1), script) == ExitCode.LIMIT
    assert pipes.out == "what I know\n"
    assert "--max-turns" in pipes.err.getvalue()


def test_an_empty_answer_is_no_success(pipes: Pipes, tmp_path: Path) -> None:
    assert pipes.ask(options(tmp_path), ScriptedModel([""])) == ExitCode.ERROR
    assert "empty answer" in pipes.err.getvalue()


def test_a_timeout_names_the_flag(pipes: Pipes, tmp_path: Path) -> None:
    script = ScriptedModel([ToolCall("", "wait_seconds", {"seconds": 1})])
    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s \(--timeout\)"):
        pipes.ask(options(tmp_path, server=(f"s='{sys.executable}' '{SMALL_SERVER}' sleeps",), timeout=0.2), script)


def test_always_load_takes_names_and_globs(pipes: Pipes, tmp_path: Path) -> None:
    for names, offered in [
        (("get_weather",), ["get_weather"]),
        (("*_always", "get_weather"), ["fail_always", "get_weather"]),
        (("small.wait*",), ["wait_seconds"]),
    ]:
        script = ScriptedModel(["x"])
        pipes.ask(options(tmp_path, always_load=names, tool_search="on"), script)
        assert [tool.name for tool in script.requests[0].tools] == ["search_tools", "add_tool", *offered]
    pipes.ask(options(tmp_path, always_load=("get_wether",), tool_search="on"), ScriptedModel(["x"]))
    assert "get_weather" in pipes.err.getvalue()


# --- the real command -------------------------------------------------------------------------------------------------


def test_a_good_and_a_broken_server_give_the_answer(tmp_path: Path) -> None:
    done = run(
        [
            *server_option("good"),
            *server_option("dies"),
            "-p",
            "what is the weather in Tokyo?",
            "-m",
            "offline",
            "--yes",
        ],
        tmp_path,
    )
    assert done.returncode == 9, done.stderr
    assert "Tokyo: 18 degrees" in done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) <= 7
    assert lines[-1].endswith("answered without dies")
    assert any("dies" in line and "GITHUB_TOKEN is required" in line for line in lines)
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.slow
def test_what_a_server_writes_to_its_stderr_is_in_its_log_and_not_on_ours(tmp_path: Path) -> None:
    given = ["--server", f'loud=sh -c "echo NOISE >&2; exec {sys.executable} {SMALL_SERVER} good"']
    done = run(["-p", "what is the weather in Oslo?", "-v", "-m", "offline", "--yes", *given], tmp_path)
    assert "Oslo: 18 degrees" in done.stdout, done.stderr
    assert "NOISE" not in done.stdout + done.stderr
    assert "NOISE" in run(["mcp", "logs", "loud", *given], tmp_path).stdout


@pytest.mark.slow
def test_where_every_server_fails_nothing_is_made_up(tmp_path: Path) -> None:
    done = run([*server_option("dies"), "-p", "hi there", "-q"], tmp_path)
    assert done.returncode == 5
    assert done.stdout == ""
    assert "GITHUB_TOKEN" in done.stderr


def test_a_file_named_as_in_a_chat_is_reported(tmp_path: Path) -> None:
    said = "@nofile.txt: sent as typed; --attach FILE sends a file along"
    done = run(["-p", "count the words of @nofile.txt for @someone", "-m", "offline"], tmp_path)
    assert said in done.stderr
    assert "@someone: sent as typed" not in done.stderr


def test_without_key_and_configuration_it_answers_and_says_how_to_go_on(tmp_path: Path) -> None:
    done = run(["-p"], tmp_path, stdin="what is 17% of 2450?\n")
    assert done.returncode == 0, done.stderr
    assert "416.5" in done.stdout
    hints = done.stderr.splitlines()
    assert len(hints) == 2
    assert "mcpagent keys set anthropic" in hints[0]
    assert "mcpagent mcp add NAME -- COMMAND" in hints[1]


@pytest.mark.slow
def test_the_configuration_of_the_project_is_found_and_named(tmp_path: Path) -> None:
    config = {"servers": {"small": {"command": sys.executable, "args": [str(SMALL_SERVER), "good"]}}}
    (tmp_path / ".mcp.json").write_text(json.dumps(config), "utf-8")
    done = run(
        ["ask", "what is the weather in Oslo?", "-v", "--model", "offline", "--trust-project", "--yes"], tmp_path
    )
    assert "Oslo: 18 degrees" in done.stdout
    assert "1 server from .mcp.json" in done.stderr


@each_row(
    "arguments, code, words",
    [
        (["prmpt"], 2, "did you mean"),
        (["--modl", "x"], 2, "--model"),
        (["tools", "serch", "x"], 2, "search"),
        (["ask", "--max-turns", "0", "x"], 2, "--max-turns"),
        (["ask", "--output", "yaml", "x"], 2, "stream-json"),
        (["-p"], 2, "there is no question"),
        (["chat", "--continue", "--resume", "lamps"], 2, "--continue and --resume name two conversations"),
        (["-p", "x", "--server", "nonsense"], 2, "NAME="),
        (["-p", "x", "--config", "missing.json"], 3, "missing.json: not found"),
        (["-p", "x", "-m", "claude-3"], 3, "anthropic:claude-3"),
        (["-p", "x", "-m", "openai:gpt-5"], 4, "OPENAI_API_KEY"),
        (["mcp", "test", "smal"], 2, "demo"),
    ],
)
def test_each_failure_is_one_clear_line(
    arguments: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment(tmp_path)):
        monkeypatch.delenv(name)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    assert run_command_line(arguments) == code
    printed = capsys.readouterr()
    errors = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert (printed.out, len(errors)) == ("", 1), printed.err
    assert words in errors[0]
    assert "Traceback" not in printed.err


@pytest.mark.slow
def test_every_flag_has_its_variable(tmp_path: Path) -> None:
    variables = {
        "MCPAGENT_MODEL": "offline",
        "MCPAGENT_SERVER": server_option("good")[1],
        "MCPAGENT_TOOL_SEARCH": "on",
        "MCPAGENT_ALWAYS_LOAD": "get_weather wait*",
        "MCPAGENT_OUTPUT": "stream-json",
        "MCPAGENT_MAX_TURNS": "1",
        "MCPAGENT_QUIET": "1",
    }
    done = run(["-p", "what is the weather in Rome?"], tmp_path, env=variables)
    assert done.returncode == 7, done.stderr
    told = documents(done.stdout)
    assert told[0]["model"].startswith("offline")
    assert told[0]["tools"]["offered"] == ["search_tools", "add_tool", "get_weather", "wait_seconds"]
    assert told[-1]["stop_reason"] == "max_turns"


def test_a_broken_configuration_names_file_line_and_column(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{\n  "mcpServers": {"a" {}}\n}', "utf-8")
    done = run(["-p", "hi there", "-q"], tmp_path)
    assert done.returncode == 3
    assert ".mcp.json:2:" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_traceback_comes_only_with_debug(tmp_path: Path) -> None:
    done = run(["-p", "x", "--config", "missing.json", "--debug"], tmp_path)
    assert done.returncode == 3
    assert "Traceback" in done.stderr


@pytest.mark.slow
def test_ctrl_c_ends_it_with_130_and_without_a_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpagent", "-v", "-o", "json", "-p", "hi there", *server_option("sleeps")],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stderr is not None
    while "1 server from --server" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=40)
    assert process.returncode == 130
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert "Traceback" not in errors


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_message(tmp_path: Path) -> None:
    """`mcpagent tools list | head -1`, with a reader that closes before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpagent", "tools", "list", *server_option("good")],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    _, errors = process.communicate(timeout=40)
    assert process.returncode == 141
    assert errors == b""


@pytest.mark.slow
def test_an_encoding_without_our_characters_is_no_error(tmp_path: Path) -> None:
    done = run(
        ["tools", "show", "hostile_text", *server_option("good"), "--color", "always"],
        tmp_path,
        env={"PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert "[bold]markup[/bold]" in done.stdout
    assert "\x1b[31m" not in done.stdout
    assert "\x1b]0;" not in done.stdout


def test_tools_are_listed_shown_and_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = options(tmp_path)
    assert list_tools(chosen, "weather") == ExitCode.OK
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["small", "get_weather", "1"]
    assert list_tools(replace(chosen, output="json"), "") == ExitCode.OK
    data = json.loads(capsys.readouterr().out)
    assert {tool["name"] for tool in data} == {"get_weather", "hostile_text", "wait_seconds", "fail_always"}
    assert search_tools(chosen, "wether in a city", 5, explain=True) == ExitCode.OK
    assert "get_weather" in capsys.readouterr().out
    assert search_tools(chosen, "qqqq zzzz", 5, explain=False) == ExitCode.ERROR
    assert show_tool(chosen, "small.get_weather") == ExitCode.OK
    assert "city  str  City name" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"did you mean get_weather\?"):
        show_tool(chosen, "get_wether")


def test_servers_are_listed_and_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "mcpServers": {
            "small": {"command": sys.executable, "args": [str(SMALL_SERVER), "good"]},
            "broken": {"command": sys.executable, "args": [str(SMALL_SERVER), "dies"]},
            "needy": {"command": "x", "env": {"TOKEN": "${SURELY_NOT_SET}"}},
            "asleep": {"command": "x", "disabled": True},
        }
    }
    (tmp_path / "mcp_servers.json").write_text(json.dumps(config, indent=1), "utf-8")
    chosen = options(tmp_path, server=(), trust_project=True)
    assert list_servers(chosen) == ExitCode.OK
    listed = capsys.readouterr().out
    assert "mcp_servers.json:3" in listed
    assert "SURELY_NOT_SET" in listed
    assert "disabled" in listed
    assert run_server_test(chosen, None) == ExitCode.SERVERS
    tested = capsys.readouterr().out
    assert "GITHUB_TOKEN is required" in tested
    assert "1 of 3 usable" in tested
    assert run_server_test(replace(chosen, output="json"), "small") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["small"]["tools"] == 4


@pytest.mark.slow
def test_the_demo_is_a_real_conversation(tmp_path: Path) -> None:
    done = run(["demo"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"4 real MCP servers with 1,\d{3} tools", done.stdout), done.stdout
    assert re.search(r"request 1: the model sees 2 of 1,\d{3} tools", done.stdout)
    assert "converter.convert_kilometres_to_miles  value=42" in done.stdout
    assert "26.0976" in done.stdout
    assert "416.5" in done.stdout
    assert "tool definitions sent" in done.stdout


# --- starting up ------------------------------------------------------------------------------------------------------


def imported_by(arguments: list[str], tmp_path: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mcpagent", *arguments],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


@each_row("arguments", [["--version"], ["-h"], ["--help"], ["help"]])
def test_help_and_version_load_next_to_nothing(arguments: list[str], tmp_path: Path) -> None:
    loaded = imported_by(arguments, tmp_path)
    assert "mcpagent.cli" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY}
    assert "asyncio" not in loaded
    assert len({name for name in loaded if name.startswith("mcpagent")}) <= 8


@each_row("arguments", [["ask", "--help"], ["tools", "search", "-h"], ["help", "mcp"]])
def test_the_help_of_a_command_loads_no_runtime(arguments: list[str], tmp_path: Path) -> None:
    loaded = imported_by(arguments, tmp_path)
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY - {"typer", "pydantic"}}
    assert "mcpagent.agents.agent" not in loaded


HEAVY = {"typer", "rich", "prompt_toolkit", "mcp", "httpx", "httpx2", "openai", "anthropic", "pydantic", "numpy"}


def test_the_page_in_the_docs_is_what_the_command_says() -> None:
    from tests.cli.reference import page

    written = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert written == page(), "docs/cli.md is old: python -m tests.cli.reference > docs/cli.md"
