"""`config.toml` and `mcpagent config`: which value counts, where it comes from, and what a project may not set."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.app import command_line, run
from mcpagent.cli.common.settings import ONE_RUN_ONLY, PROJECT_KEYS, default_map, read_settings, settable
from mcpagent.errors import ConfigError
from tests.tables import each_row
from tests.terminal.process import environment, server_option
from tests.terminal.warm import run as run_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")

Config = Callable[..., str]


class Place:
    """A project in a repository, and the user's folder."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.folder = tmp_path / "top" / "work"
        self.folder.mkdir(parents=True)
        (tmp_path / "top" / ".git").mkdir()
        self.environ = {"MCPAGENT_HOME": str(self.home)}

    def user(self, text: str) -> Path:
        return self._write(self.home / "config" / "config.toml", text)

    def project(self, text: str, folder: Path | None = None) -> Path:
        return self._write((folder or self.folder) / ".mcpagent.toml", text)

    def _write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def values(self) -> dict[str, Any]:
        return {name: setting.value for name, setting in self.read().values.items()}

    def read(self) -> Any:
        return read_settings(self.folder, self.environ, settable(command_line()))

    def warnings(self) -> list[str]:
        return [line.rpartition("/")[2] for line in self.read().warnings]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def config(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Config:
    """Runs a command line in the project; what it wrote, the exit code being this."""
    monkeypatch.chdir(place.folder)
    kept = environment(place.home)
    for name in set(os.environ) - set(kept):
        monkeypatch.delenv(name)
    monkeypatch.setenv("MCPAGENT_HOME", str(place.home))

    def answer(*arguments: str, code: int = 0) -> str:
        found = run(["config", *arguments])
        out, err = capsys.readouterr()
        assert found == code, out + err
        return out + err

    return answer


# --- which value counts ---


def test_a_later_file_wins_and_the_nearest_project_is_the_last(place: Place) -> None:
    place.user('model = "a:1"\ntool_search = "off"\nmax_turns = 50\n')
    place.project('model = "b:2"\nmax_turns = 20\n', place.folder.parent)
    place.project('model = "c:3"\n')
    assert place.values() == {"model": "c:3", "tool_search": "off", "max_turns": 20}


def test_nothing_is_read_where_there_is_nothing(place: Place) -> None:
    assert place.read().values == {}
    assert default_map(command_line(), place.read()) == {}


def test_keys_may_be_spelled_as_people_spell_them(place: Place) -> None:
    place.user('toolSearch = "on"\n"always-load" = "time.*"\nstatusLine = "my-status"\n')
    assert place.values() == {"tool_search": "on", "always_load": ["time.*"], "status_line": "my-status"}


@each_row(
    "line, words",
    [
        ("max_turns = 0", "config.toml:2: max_turns: "),
        ('max_turns = "many"', "config.toml:2: max_turns: "),
        ('tool_search = "sometimes"', "'auto', 'on', 'off'"),
        ("tool_search = ['on']", "expected one value"),
        ("always_load = 3", "expected a list of strings"),
        ("deny = [['*']]", "expected a list of strings"),
        ("deny = ['*', {a = 1}]", "expected a list of strings"),
        ("deny = [1]", "expected a list of strings"),
        ("allow = [true, 'git.*']", "expected a list of strings"),
        ("deny = 1", "expected a list of strings"),
        ("max_cost = -1", "config.toml:2: max_cost: "),
        (f"max_seconds = 1{'0' * 400}", "config.toml:2: max_seconds: "),
        (f"max_turns = 1{'0' * 400}", "config.toml:2: max_turns: "),
        ("[model]\nname = 'x'", "expected one value"),
        ("model = ", "config.toml: "),
    ],
)
def test_a_value_that_the_option_does_not_take(line: str, words: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.user(f"# mine\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        place.read()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keys_that_mean_nothing_are_told_with_what_was_meant(place: Place) -> None:
    place.user('modle = "x"\nzzz = 1\ntrust_project = true\n')
    assert place.warnings() == [
        "config.toml:1: unknown key modle; did you mean model?",
        "config.toml:2: unknown key zzz; see mcpagent config show",
        "config.toml:3: trust_project cannot be set for good; it is left out",
    ]
    assert place.values() == {}


def test_a_variable_that_is_nearly_one_of_ours_is_told_with_what_was_meant(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MCPAGENT_MODLE", "MCPAGENT_SIGNINGKEY", "MCPAGENT_DEMO", "MCPAGENT_LOG", "MY_MCPAGENT_MODEL"):
        monkeypatch.setenv(name, "info")
    told = [line for line in config("path").splitlines() if line.startswith("!")]
    assert told == [
        "! variable MCPAGENT_MODLE is not read; did you mean MCPAGENT_MODEL?",
        "! variable MCPAGENT_SIGNINGKEY is not read; did you mean MCPAGENT_SIGNING_KEY?",
    ]


# --- what a project may set ---


def test_a_project_allows_nothing_more_than_its_user_does(place: Place) -> None:
    place.user("max_cost = 0.5\ndeny = ['git.push']\n")
    place.project(
        "approve = 'all'\nallow = ['*']\nyes = true\nstatus_line = 'curl x'\nmax_cost = 5\nmax_turns = 1000\n"
        "model = 'openai-chat:x?base_url=https://example.com&api_key_env=AWS_SECRET'\ndeny = ['*.delete']\n"
    )
    assert place.values() == {"max_cost": 0.5, "deny": ["git.push", "*.delete"]}
    left_out = [line.split(": ")[1].split()[0] for line in place.warnings()]
    assert left_out == ["approve", "allow", "yes", "status_line", "max_cost", "max_turns", "a"]


def test_every_other_option_is_the_users_alone(place: Place) -> None:
    options = settable(command_line())
    assert not options.keys() & ONE_RUN_ONLY
    others = {name: "true" if option.param.is_flag else "'x'" for name, option in options.items()}
    others = {name: value for name, value in others.items() if name not in PROJECT_KEYS}
    place.project("".join(f"{name} = {value}\n" for name, value in others.items()))
    assert place.values() == {}
    assert {line.split(": ")[1].split()[0] for line in place.warnings()} == others.keys()


@pytest.mark.slow
def test_flags_go_before_variables_before_files(place: Place) -> None:
    place.user('model = "nonsense-of-file"\nquiet = true\n')
    question = ["-p", "hello", *server_option("good")]

    def error(arguments: list[str], **env: str) -> str:
        done = run_process([*arguments, *question], place.folder, env={"MCPAGENT_HOME": str(place.home), **env})
        return done.stderr

    assert "nonsense-of-file" in error([])
    assert "nonsense-of-variable" in error([], MCPAGENT_MODEL="nonsense-of-variable")
    assert "nonsense-of-flag" in error(["-m", "nonsense-of-flag"], MCPAGENT_MODEL="nonsense-of-variable")
    assert error(["-m", "offline"]) == ""


def test_the_demo_is_the_same_for_everybody(place: Place) -> None:
    place.user('model = "openai:gpt-5.5"\n')
    defaults = default_map(command_line(), place.read())
    assert "demo" not in defaults
    assert defaults["chat"] == {"model": "openai:gpt-5.5"}


# --- config show, path, edit ---


def test_show_says_where_each_value_comes_from(place: Place, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    place.user('\nmodel = "offline"\nalways_load = ["a", "b"]\n')
    place.project("max_turns = 5\n")
    monkeypatch.setenv("MCPAGENT_APPROVE", "none")
    rows = {line.split(" = ")[0].split()[-1]: line for line in config("show", "-v").splitlines() if " = " in line}
    assert rows["model"].startswith(f"{place.home}/config/config.toml:2 ")
    assert rows["always_load"].endswith('always_load = ["a", "b"]')
    assert rows["max_turns"].startswith(".mcpagent.toml:1 ")
    assert rows["approve"].startswith("env MCPAGENT_APPROVE ")
    assert rows["approve"].endswith('approve = "none"')
    assert rows["tool_search"].startswith("default ")
    plain = config("show")
    assert "default" not in plain
    assert f'model = "offline"   {place.home}/config/config.toml:2\n' in plain
    document = json.loads(config("show", "--json"))
    assert document["settings"]["max_turns"] == {"value": 5, "origin": ".mcpagent.toml:1"}
    assert set(document["settings"]) >= {name for name in settable(command_line()) if name != "status_line"}


def test_show_tells_no_secret_of_a_models_options(place: Place, config: Config) -> None:
    place.user('model = "ollama:m?header.X-Gateway=canary-1&seed=1"\n')
    for shown in (config("show"), config("show", "--json")):
        assert "canary" not in shown
        assert "seed=1" in shown


def test_a_file_that_is_wrong_stops_a_chat_and_not_its_fixing(
    place: Place, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place.user("max_turns = 0\n")
    assert run(["tools", "list"]) == 3
    assert "config.toml:1" in config("show", code=3)
    assert config("path", "config") == f"{file}\n"
    editor = place.folder / "editor"
    editor.write_text("#!/bin/sh\nprintf 'max_turns = 5\\nmodle = 1\\n' > \"$1\"\n", "utf-8")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    said = config("edit")
    assert "config.toml can be read" in said
    assert "did you mean model?" in said
    assert place.values() == {"max_turns": 5}


def test_edit_begins_a_file_and_checks_what_was_saved(
    place: Place, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    config("edit")
    assert "# model = " in (place.home / "config" / "config.toml").read_text("utf-8")
    assert place.values() == {}
    config("edit", "servers")
    assert (place.home / "config" / "mcp.json").read_text("utf-8") == "{}\n"
    config("edit", "project-config")
    shared = place.folder / ".mcpagent.toml"
    assert "# Defaults for whoever" in shared.read_text("utf-8")
    assert shared.stat().st_mode & 0o777 == 0o644
    monkeypatch.setenv("EDITOR", "false")
    assert "exit code 1" in config("edit", code=2)
    monkeypatch.setenv("EDITOR", "surely-not-there")
    assert "set EDITOR" in config("edit", code=2)
    monkeypatch.setenv("EDITOR", "sh -c 'echo { > $0'")
    assert "mcp.json:" in config("edit", "servers", code=3)


def test_paths_are_printed_one_or_all(place: Place, config: Config) -> None:
    assert config("path", "logs") == f"{place.home}/state/logs\n"
    named = dict(line.split(maxsplit=1) for line in config("path").splitlines())
    assert named["servers"] == f"{place.home}/config/mcp.json"
    assert named["project"] == f"{place.folder.parent}/.mcp.json"
    assert "did you mean logs?" in config("path", "lgos", code=2)


ODD_FILES = [
    " " * 900_000 + "#\n",
    "\t" * 900_000 + "\nmax_turns = 5\n",
    "".join(f"k{number} = 1\n" for number in range(900)),
    "".join(f"k{number} = 1\n" for number in range(70_000)),
    f"{'k' * 900_000} = 1\n",
    "[" * 200_000,
    'deny = ["demo.' + "[" * 900_000 + '"]\n',
]


@pytest.mark.slow
def test_a_projects_file_is_read_in_bounded_time_whatever_is_in_it(place: Place) -> None:
    """The bound is ten times what any of them takes, compared with a plain file of the same size."""

    def read(text: str) -> tuple[float, str]:
        place.project(text)
        said, started = "", time.thread_time()
        try:
            place.values()
        except ConfigError as error:
            said = str(error)
        return time.thread_time() - started, said

    plain, _ = read("# a comment\n" * 75_000)
    for text in ODD_FILES:
        seconds, said = read(text)
        assert seconds < 30 * plain, text[:20]
        assert said.isprintable()


@each_row("line", [f"max_turns = {'9' * 5_000}", 'model = "\\ud800"', "x = " + "[" * 5_000])
def test_what_python_cannot_read_is_one_line(line: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.project(line)
    with pytest.raises(ConfigError) as caught:
        read_settings(place.folder, place.environ, settable(command_line()))
    assert ".mcpagent.toml: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "sys." not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX")
def test_settings_that_are_no_regular_file_are_said_to_count_for_nothing(tmp_path: Path) -> None:
    environ = {"MCPAGENT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    file = tmp_path / ".mcpagent.toml"
    assert read_settings(tmp_path, environ, {}).warnings == ()
    for target in ("", "/dev/zero", "nowhere"):
        if target:
            file.symlink_to(target)
        else:
            os.mkfifo(file)
        [said] = read_settings(tmp_path, environ, {}).warnings
        assert said.startswith(f"{file}: is no file that can be read")
        file.unlink()
