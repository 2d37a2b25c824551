"""One-shot runs among other programs: pipes that are closed, other locales, much or odd input, signals, variables."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.app import command_line
from mcpagent.cli.common.exit_codes import ExitCode
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER, environment, heed_ctrl_c, server_option
from tests.terminal.warm import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX pipes")

OFFLINE = ["-m", "offline", "-q", "--yes"]
CHANGING = "CHANGING"
"""Stands for the name of the model that calls what changes things."""

WEATHER = ["-p", "what is the weather in Rome?", *OFFLINE, *server_option("good")]


def without(folder: Path) -> dict[str, str]:
    """Variables that say there are no servers, not even the bundled one."""
    (folder / "none.json").write_text('{"mcpServers": {}}', "utf-8")
    return {"MCPAGENT_CONFIG": str(folder / "none.json")}


def shell(script: str, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """A line of sh in which `mcpagent` is the command."""
    given = {"PYTHON": sys.executable, **without(folder), **(env or {})}
    variables = environment(folder / "home", given)
    function = 'mcpagent() { "$PYTHON" -m mcpagent "$@"; }\n'
    return subprocess.run(
        ["sh", "-c", function + script], cwd=folder, env=variables, capture_output=True, timeout=60, check=False
    )


def requests_of(recording: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in recording.read_text("utf-8").splitlines()]
    return [line for line in lines if line["type"] == "model_asked"]


def sent(folder: Path) -> str:
    """The question as the model got it."""
    text: str = requests_of(folder / "run.jsonl")[0]["messages"][0]["parts"][0]["text"]
    return text


# --- stdin ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_piped_in_goes_to_the_model_with_the_question(tmp_path: Path) -> None:
    asked = ["-m", "offline", "--record", "run.jsonl"]
    done = shell("echo x | mcpagent -p q -m offline --record run.jsonl", tmp_path)
    assert done.returncode == 0, done.stderr
    assert sent(tmp_path) == "q\n\n```\nx\n```"
    assert run(asked, tmp_path, stdin="only this\n", env=without(tmp_path)).returncode == 0
    assert sent(tmp_path) == "only this"


@pytest.mark.slow
def test_the_ranking_is_the_one_asked_for(tmp_path: Path) -> None:
    question = ["-p", "what is 2 plus 2?", "-m", "offline", "-q", "--record", "run.jsonl"]
    for given, used in [([], "auto"), (["--set", "search_strategy=regex"], "regex")]:
        assert run([*question, *given], tmp_path, env=without(tmp_path)).returncode == 0
        start = json.loads((tmp_path / "run.jsonl").read_text("utf-8").splitlines()[0])
        assert start["search"]["strategy"] == used
    assert run([*question, "--set", "search_strategy=guess"], tmp_path, env=without(tmp_path)).returncode == 2


def test_bytes_that_are_no_text_are_replaced_and_sent(tmp_path: Path) -> None:
    done = run(
        ["-p", "q", "-m", "offline", "--record", "run.jsonl"], tmp_path, stdin="a\udcff\0b", env=without(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert "a\ufffd\ufffdb" in sent(tmp_path)


def test_more_than_fits_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    done = run(["-p", "q", "-m", "offline"], tmp_path, stdin="x" * 10_000_100)
    assert (done.returncode, done.stdout) == (2, "")
    assert "stdin holds more than 10 MB" in done.stderr


def test_a_stdin_that_stays_open_is_waited_for_as_long_as_an_answer(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        question = ["-p", "what is 2 plus 2?", "-m", "offline", "-q", "--timeout", "0.5"]
        done = run(question, tmp_path, stdin=reading, env=without(tmp_path))
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stdout) == (124, "")
    assert "stdin did not end within 0.5 s (--timeout)" in done.stderr


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without end")
def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    done = run(["-p", "what is this?", "/dev/zero", "-m", "offline"], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'error: "/dev/zero" cannot be read: is no regular file; name another file' in done.stderr


def test_a_closed_stdin_is_no_question_and_no_error(tmp_path: Path) -> None:
    done = shell("mcpagent -p 'what is 2 plus 2?' -m offline -q <&-", tmp_path)
    assert done.returncode == 0, done.stderr


# --- stdout and stderr ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("output", ["text", pytest.param("stream-json", marks=pytest.mark.slow)])
def test_b41_closed_streams_are_no_traceback(output: str, tmp_path: Path) -> None:
    question = f"mcpagent -p 'what is 2 plus 2?' -m offline -q -o {output}"
    without_out = shell(f"{question} >&-", tmp_path)
    assert b"Traceback" not in without_out.stderr
    without_err = shell(f"{question} 2>&-", tmp_path)
    assert without_err.returncode == 0
    assert without_err.stdout
    assert shell("mcpagent -p x -m nonsense 2>&-", tmp_path).returncode == 3


def test_a_reader_that_leaves_in_the_middle_ends_the_run(tmp_path: Path) -> None:
    script = "{ mcpagent -p 'what is 2 plus 2?' -m offline -q -o stream-json; echo $? >code; } | true; cat code"
    done = shell(script, tmp_path)
    assert done.stdout.strip() == b"141"
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": "C", "PYTHONUTF8": "0"}, pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.slow)],
)
def test_another_locale_gets_what_it_can_show(locale: dict[str, str], tmp_path: Path) -> None:
    with_words = {"LANG": "C", **locale}
    done = shell("mcpagent -p 'say Köln \u2192 today' -m offline", tmp_path, with_words)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    as_json = shell("mcpagent -p 'hi there' -m offline -q -o json", tmp_path, with_words)
    assert json.loads(as_json.stdout)["type"] == "result"
    assert as_json.stdout.isascii()


@pytest.mark.slow
def test_t14_no_escape_sequence_comes_into_a_pipe_unless_asked_for(tmp_path: Path) -> None:
    verbose = [word for word in (*WEATHER, "-v") if word != "-q"]
    plain = run(verbose, tmp_path, env={"TERM": "xterm-256color"})
    assert "get_weather" in plain.stderr
    assert "\x1b" not in plain.stdout + plain.stderr
    assert "\x1b" in run([*verbose, "--color", "always"], tmp_path).stderr


# --- the end ----------------------------------------------------------------------------------------------------------


def processes_with(word: str) -> list[int]:
    """Processes whose command line holds this."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks at /proc")
@pytest.mark.parametrize(
    ("number", "code", "kind"),
    [
        (signal.SIGTERM, 143, "terminated"),
        pytest.param(signal.SIGHUP, 129, "terminated", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, "interrupted", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_the_run_and_its_servers(number: signal.Signals, code: int, kind: str, tmp_path: Path) -> None:
    own = tmp_path / f"server_{os.getpid()}_{code}.py"  # to be told apart from other tests' servers
    own.write_text(SMALL_SERVER.read_text("utf-8"), "utf-8")
    server = ["--server", f"own='{sys.executable}' '{own}' good"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mcpagent",
            "-p",
            "wait 60 seconds",
            "-v",
            "-m",
            "offline",
            "--yes",
            "-o",
            "stream-json",
            *server,
        ],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    while '"tool_use"' not in (line := process.stdout.readline()) or "wait_seconds" not in line:
        assert line, process.stderr.read() if process.stderr else ""
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    last = json.loads(out.splitlines()[-1])
    assert (last["error"]["kind"], last["error"]["exit_code"]) == (kind, code)
    assert "Traceback" not in errors
    assert processes_with(own.name) == []


@pytest.mark.slow
def test_a_time_limit_is_kept_with_its_own_code(tmp_path: Path) -> None:
    done = run(["-p", "wait 60 seconds", *OFFLINE, *server_option("sleeps"), "--timeout", "2"], tmp_path)
    assert (done.returncode, done.stdout) == (124, "")
    assert "no answer within 2 s (--timeout)" in done.stderr


def test_every_exit_code_has_a_meaning_in_the_docs() -> None:
    assert all(code.meaning for code in ExitCode)


@pytest.mark.slow
@each_row(
    "arguments, code",
    [
        (["-p", "what is 2 plus 2?", "-m", "offline"], 0),
        (["-p", "hello there", "-m", "openai:x"], 4),
        (["-p", "hello there", "-m", "nonsense"], 3),
        (["prmpt"], 2),
        (["-p", "hello there", "-m", "offline", *server_option("dies")], 5),
        (["-p", "push branch main to remote origin", "-m", CHANGING, *server_option("writes")], 6),
        (
            [
                "-p",
                "push branch main to remote origin",
                "-m",
                CHANGING,
                "--set",
                "denied_ok=true",
                *server_option("writes"),
            ],
            0,
        ),
        (["-p", "what is the weather in Rome?", *OFFLINE, "--max-turns", "1", *server_option("good")], 7),
    ],
)
def test_the_code_says_how_it_ended(arguments: Sequence[str], code: int, tmp_path: Path, changing_model: str) -> None:
    done = run([changing_model if argument == CHANGING else argument for argument in arguments], tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


# --- variables --------------------------------------------------------------------------------------------------------


@each_row("command", ["ask", "chat", "demo"])
def test_each_option_has_the_variable_of_its_name(command: str) -> None:
    # It is what `ask` is; and which conversation goes on, and which files go along, is said each time.
    without = {"--print", "--continue", "--resume", "--session", "--attach"}
    for param in command_line().commands[command].params:
        if param.param_type_name == "option" and not without.intersection(param.opts):
            name = f"MCPAGENT_{param.name.upper()}"
            assert param.envvar == name or f"[{name}]" in (param.help or ""), param.name


@pytest.mark.slow
def test_variables_are_read_and_flags_go_before_them(tmp_path: Path) -> None:
    variables = {"MCPAGENT_MODEL": "offline", "MCPAGENT_JSON": "1", "MCPAGENT_DRY_RUN": "1"}
    estimated = run(["-p", "hello there", *server_option("good")], tmp_path, env=variables)
    assert json.loads(estimated.stdout)["type"] == "estimate"
    flagged = run(["-p", "hello there", "-m", "nonsense"], tmp_path, env=variables)
    assert flagged.returncode == 3
    typed = run(["-p", "hello there", "-o", "text", *server_option("good")], tmp_path, env=variables)
    assert "{" not in typed.stdout


@pytest.mark.slow
def test_a_variable_that_says_yes_gives_way_to_what_is_typed(tmp_path: Path, changing_model: str) -> None:
    arguments = ["-m", changing_model, "-p", "push branch main to remote origin", *server_option("writes")]
    assert run([*arguments, "--approve", "none"], tmp_path, env={"MCPAGENT_YES": "1"}).returncode == ExitCode.DENIED
    assert run([*arguments, "--yes"], tmp_path, env={"MCPAGENT_APPROVE": "none"}).returncode == ExitCode.OK


@pytest.mark.slow
def test_an_empty_configuration_keeps_the_demo_and_says_so(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {}}')
    asked = run(["-p", "what is 2 plus 2?", "-m", "offline"], tmp_path)
    assert "4" in asked.stdout
    assert "no servers in .mcp.json: bundled demo server. Your own: mcpagent mcp add" in asked.stderr
    assert "the bundled demo server (no servers in .mcp.json)" in run(["mcp", "list"], tmp_path).stdout
    assert "config (no servers in .mcp.json): the bundled" in run(["doctor"], tmp_path).stdout
    named = run(["tools", "list", "--config", ".mcp.json", "--trust-project"], tmp_path)
    assert "0 tools" in named.stdout


@pytest.mark.slow
def test_arguments_of_a_tool_can_be_piped_in(tmp_path: Path) -> None:
    called = run(["tools", "call", "calculate", "-"], tmp_path, stdin='{"expression": "6 * 7"}')
    assert (called.returncode, called.stdout) == (0, "6 * 7 = 42\n")


# --- what cannot be written or read -----------------------------------------------------------------------------------


@pytest.mark.slow
@each_row(
    "typed, code, said",
    [
        ("ask x /", ExitCode.USAGE, '"/" is a folder; name a file in it'),
        ("tools eval nofile", ExitCode.USAGE, "nofile: not found; create it or name another file"),
        ("--config '' -p hi", ExitCode.USAGE, "--config: is empty or the folder itself; name a file with mcpServers"),
        ("--server '' -p hi", ExitCode.USAGE, "--server is empty; write NAME='command args' or NAME=URL"),
        ("-p hi --yes --approve none", ExitCode.USAGE, "--yes and --approve none contradict each other; write one of"),
        ("-p hi --yes --approve ask", ExitCode.USAGE, "--yes and --approve ask contradict each other; write one of"),
        ("-p hi --json -o stream-json", ExitCode.USAGE, "--json and --output stream-json contradict each other; write"),
        ("-p hi --quiet --verbose", ExitCode.USAGE, "--quiet and --verbose contradict each other; write one of them"),
        ("chat --yes --approve safe", ExitCode.USAGE, "--yes and --approve safe contradict each other; write one of"),
        ("-p hi --modle offline", ExitCode.USAGE, "no such option: --modle; did you mean --model"),
        ("-p hi --max-turns", ExitCode.USAGE, "option '--max-turns' requires an argument"),
        ("-p hi --max-turns many", ExitCode.USAGE, "invalid value for '--max-turns'"),
    ],
)
def test_what_cannot_be_used_is_one_plain_line(typed: str, code: ExitCode, said: str, tmp_path: Path) -> None:
    done = run(shlex.split(typed), tmp_path, env=without(tmp_path))
    assert done.returncode == code
    assert said in done.stderr
    assert "Errno" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")
@pytest.mark.parametrize("typed", ["--version", "config path", f"{' '.join(OFFLINE)} -p 'what is 2 plus 2?'"])
def test_output_that_cannot_be_written_is_one_plain_line(typed: str, tmp_path: Path) -> None:
    done = shell(f"mcpagent {typed} > /dev/full", tmp_path)
    assert done.returncode == ExitCode.ERROR
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("error: the output cannot be written: No space left on device")


@pytest.mark.slow
def test_a_group_alone_shows_what_it_is_about_or_how_it_is_used(tmp_path: Path) -> None:
    shown = run(["config"], tmp_path, env=without(tmp_path))
    assert shown.returncode == 0
    assert "approve = " in shown.stdout
    used = run(["cards"], tmp_path, env=without(tmp_path))
    assert used.returncode == 0
    assert used.stdout.startswith("Usage: mcpagent cards [OPTIONS] COMMAND [ARGS]...")
