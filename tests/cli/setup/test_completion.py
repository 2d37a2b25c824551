"""What may stand next on a command line, and the scripts that ask for it, in real shells."""

from __future__ import annotations

import functools
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import tree_sitter
import tree_sitter_powershell

from mcpagent.cli.app import command_line
from mcpagent.cli.common.options import Shell, flags_of
from mcpagent.cli.setup.completion import Completed, Names, candidates, plain_names, script_of, split_line
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER, environment
from tests.terminal.warm import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX shells")


the_command = functools.cache(command_line)


KNOWN = Names(
    servers=lambda: [Completed("git"), Completed("github"), Completed("time")],
    tools=lambda: [Completed("git.git_status"), Completed("time.now")],
    parameters=lambda tool: [Completed("zone=")] if tool in ("now", "time.now") else [],
    sessions=lambda: [Completed("1a2b3c4d"), Completed("job")],
)
"""Of an imagined configuration."""


def words(line: str) -> list[str]:
    given = split_line(line)
    return [item.word for item in candidates(given[:-1], given[-1], the_command(), KNOWN)]


@each_row(
    "line, expected",
    [
        ("mcpagent mc", ["mcp"]),
        ("mcpagent mcp re", ["remove"]),
        ("mcpagent mcp remove gi", ["git", "github"]),
        ("mcpagent mcp remove --scope ", ["user", "project"]),
        ("mcpagent mcp remove --scope user t", ["time"]),
        ("mcpagent mcp remove git g", []),
        ("mcpagent tools show ti", ["time.now"]),
        ("mcpagent permissions explain ti", ["time.now"]),
        ("mcpagent sessions show 1", ["1a2b3c4d"]),
        ("mcpagent sessions ex", ["export"]),
        ("mcpagent --resume ", ["1a2b3c4d", "job"]),
        ("mcpagent -p --session j", ["job"]),
        ("mcpagent --no-s", ["--no-session"]),
        ("mcpagent tools call time.now ", ["zone="]),
        ("mcpagent tools call time.now zone=x z", ["zone="]),
        ("mcpagent --color a", ["auto", "always"]),
        ("mcpagent --color=a", ["--color=auto", "--color=always"]),
        ("mcpagent --colo", ["--color"]),
        ("mcpagent -m anth", ["anthropic:claude-sonnet-5-5"]),
        ("mcpagent --set provider_tool=web_", ["provider_tool=web_search", "provider_tool=web_fetch"]),
        ("mcpagent -m x chat --verb", ["--verbose"]),
        ("mcpagent -p --set deni", ["denied_ok="]),
        ("mcpagent chat --set deni", []),
        ("mcpagent --allow git", ["git.git_status", "git.*", "github.*"]),
        ("mcpagent --config ", []),
        ("mcpagent -p wh", []),
        ("mcpagent 'a question", []),
        ("mcpagent mcp add x -- mc", []),
        ("mcpagent mcp add x -- --en", []),
        ("mcpagent mcp import cl", ["claude-desktop", "claude-code"]),
        ("mcpagent help tool", ["tools"]),
        ("mcpagent config edit pro", ["project", "project-config"]),
        ("mcpagent completion f", ["fish"]),
        ("mcpagent doctor ", []),
        ("mcpagent nonsense ", []),
    ],
)
def test_what_may_come_next(line: str, expected: list[str]) -> None:
    assert words(line) == expected


@pytest.mark.slow
def test_every_command_and_every_shown_option_is_offered() -> None:
    command = command_line()
    assert set(words("mcpagent ")) == {*command.commands, "help"}
    for name, group in command.commands.items():
        for path, leaf in [(f"{name} {sub}", item) for sub, item in getattr(group, "commands", {}).items()] or [
            (name, group)
        ]:
            shown = {
                opt
                for param in leaf.params
                if param.param_type_name == "option" and not param.hidden
                for opt in flags_of(param)
            }
            assert set(words(f"mcpagent {path} --")) == {opt for opt in shown if opt.startswith("--")} | {"--help"}


def test_names_that_a_shell_could_misread_are_not_offered() -> None:
    hostile = ["$(touch x)", "`id`", "a b", "a;b", "-rf", "a\nb", "a'b", "\x1b[31m", "é", ""]
    assert list(plain_names((name, "") for name in hostile)) == []
    about = "First.\tSecond \x1b[31m. More"
    assert list(plain_names([("git.get-x_1", about)])) == [Completed("git.get-x_1", "First. Second [31m")]


@each_row(
    "line, expected",
    [
        ("mcpagent ", [""]),
        ("mcpagent a b", ["a", "b"]),
        ("mcpagent 'a b", ["a b"]),
        ('mcpagent "a ', ["a "]),
        ("mcpagent a\\ b c ", ["a b", "c", ""]),
        ("mcpagent 'a' ", ["a", ""]),
    ],
)
def test_a_line_is_divided_with_its_last_word_open(line: str, expected: list[str]) -> None:
    assert split_line(line) == expected


# --- in shells ---


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration whose tools are in the cache, and `mcpagent` on PATH."""
    folder = tmp_path_factory.mktemp("work")
    server = {"command": sys.executable, "args": [str(SMALL_SERVER), "good"]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"small": server}}), "utf-8")
    assert run(["tools", "list", "--trust-project"], folder).returncode == 0
    program = folder / "bin" / "mcpagent"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcpagent "$@"\n', "utf-8")
    program.chmod(0o755)
    for shell in get_args(Shell):
        (folder / f"complete.{shell}").write_text(script_of(shell), "utf-8")
    (folder / "notes.txt").write_text("x", "utf-8")
    return folder


def variables(work: Path) -> dict[str, str]:
    path = os.pathsep.join((str(work / "bin"), os.environ["PATH"]))
    return environment(work / "home", {"PATH": path, "LC_ALL": "C.UTF-8", "HOME": str(work), "ZDOTDIR": str(work)})


@pytest.mark.slow
def test_bash_gets_what_is_still_to_be_typed(work: Path) -> None:
    script = """
        source complete.bash
        COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        try() { COMP_LINE="$1"; COMP_POINT=${2:-${#1}}; _mcpagent; printf '%s|' "${COMPREPLY[@]}"; echo; }
        try "mcpagent tools show small.get"
        try "mcpagent --color=al"
        try "mcpagent -m openai:"
        try "mcpagent mcp ena small" 16
        try "mcpagent zzz"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=work,
        env=variables(work),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    # compopt complains where no completion is going on; that is all there may be
    assert [line for line in done.stderr.splitlines() if "compopt" not in line] == []
    assert done.stdout.splitlines() == ["small.get_weather|", "always|", "gpt-5.5|", "enable|", "|"]


class Typist:
    """A shell on a pseudo-terminal."""

    def __init__(self, shell: list[str], work: Path) -> None:
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(work)
            os.execvpe(shell[0], shell, {**variables(work), "PS1": "$ ", "PROMPT": "$ "})
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} did not appear in {self.seen[-2000:]!r}"
            if select.select([self._descriptor], [], [], 0.2)[0]:
                self.seen += os.read(self._descriptor, 65_536).decode("utf-8", "replace")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)


SHELLS = {
    "bash": (["bash", "--norc", "-i"], "source complete.bash"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source ./complete.zsh"),
    "fish": (["fish", "--no-config", "-i"], "source complete.fish"),
}


@pytest.fixture(params=["bash", *(pytest.param(name, marks=pytest.mark.slow) for name in ("zsh", "fish"))])
def typist(request: pytest.FixtureRequest, work: Path) -> Iterator[Typist]:
    command, prepare = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    typist = Typist(command, work)
    try:
        typist.type(f"{prepare}; echo rea''dy\n")
        typist.wait_for("ready")
        yield typist
    finally:
        typist.close()


def test_the_key_completes_commands_servers_and_tools(typist: Typist) -> None:
    typist.seen = ""
    typist.type("mcpagent tools show small.get\t")
    typist.wait_for("small.get_weather")
    typist.type("\x15")
    typist.seen = ""
    typist.type("mcpagent mcp disa\t")
    typist.wait_for("disable")
    typist.type("sma\t")
    typist.wait_for("small")


def powershell_errors(script: str) -> bool:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    return parser.parse(script.encode()).root_node.has_error


def test_the_script_for_powershell_is_right_by_its_grammar() -> None:
    """It was never run: PowerShell comes in no package that a test could install."""
    script = script_of("pwsh")
    assert not powershell_errors(script)
    for broken in (script.replace("if (", "if ", 1), script.replace('"`t"', '"`t'), script.rstrip()[:-1]):
        assert powershell_errors(broken)


def test_it_is_quick_and_starts_no_server(work: Path) -> None:
    """It runs at each press of a key, so it must not load what it does not need."""
    command = [sys.executable, "-X", "importtime", "-m", "mcpagent"]
    done = subprocess.run(
        [*command, "completion", "fish", "--complete", "--", "tools", "show", "small."],
        cwd=work,
        env=environment(work / "home"),
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    assert "small.get_weather\tGet the current weather for a city\n" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mcpagent.cli.setup.completion" in loaded
    heavy = {"anthropic", "httpx", "httpx2", "mcp", "numpy", "openai", "prompt_toolkit", "pydantic"}
    assert not {name for name in loaded if name.partition(".")[0] in heavy}


def test_a_broken_configuration_completes_nothing_and_says_nothing(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{", "utf-8")
    done = run(["completion", "zsh", "--complete", "--", "mcp", "remove", ""], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run(["completion", "zsh", "--complete", "--", "mcp", "remo"], tmp_path).stdout.startswith("remove\t")
