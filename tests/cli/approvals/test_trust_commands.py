"""One consent a project: no question for one's own edits, one line for commits of others, and a way to take it back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.approvals.trust_commands import revoke_consent
from mcpagent.cli.common.options import Options
from mcpagent.errors import InputError
from mcpagent.permissions.trust.descriptions import Description
from mcpagent.permissions.trust.trust_store import TrustStore
from tests.terminal.process import SMALL_SERVER
from tests.terminal.warm import on_a_terminal, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")

GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
LINE = "changed by others since you agreed: mcpagent trust show"


def git(folder: Path, *arguments: str, author: str = "me") -> None:
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", author), ("EMAIL", f"{author}@x"))
    }
    subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **GIT, **who}, check=True, capture_output=True)


def commit(folder: Path, name: str, text: str, author: str = "me") -> None:
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", f"{name} by {author}", author=author)


def program(word: str) -> str:
    return (
        f"# {word}\nimport runpy, sys\nsys.argv = ['server', 'good']\n"
        f"runpy.run_path({str(SMALL_SERVER)!r}, run_name='__main__')\n"
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with a server of its own, in a repository of the person, which nobody agreed to."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "config", "user.email", "me@x")
    git(folder, "config", "user.name", "me")
    servers = {"small": {"command": sys.executable, "args": ["server.py", "--settings=settings.ini"]}}
    (folder / "settings.ini").write_text("a")
    (folder / "helper.py").write_text("a")
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    commit(folder, "server.py", program("first"))
    return folder


def agree(folder: Path) -> None:
    with on_a_terminal(["tools", "list"], folder) as screen:
        screen.wait_for(r"allow it\? \[N\] ")
        assert "code in this folder will run" in " ".join(screen.text.split())
        screen.type("y\r")
        assert screen.exit_code() == 0


def said(folder: Path, *arguments: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    done = run(list(arguments), folder, env=env)
    assert done.returncode == code, done.stderr
    return str(done.stdout + done.stderr)


@pytest.mark.slow
def test_one_question_none_for_ones_own_edits_and_a_line_for_those_of_others(work: Path) -> None:
    agree(work)
    for number in range(5):
        (work / "server.py").write_text(program(f"edit {number}"))
        assert LINE not in said(work, "tools", "list", "--refresh")
    commit(work, "server.py", program("mine"))
    assert LINE not in said(work, "tools", "list")
    commit(work, "helper.py", "theirs, and named by nobody", author="mallory")
    commit(work, "server.py", program("theirs"), author="mallory")
    shown = said(work, "tools", "list")
    assert f"2 files {LINE}" in shown
    assert "get_weather" in shown
    shown = said(work, "trust", "show")
    assert "you agreed to this" in shown
    assert "changed by others since you agreed: helper.py" in shown
    assert "changed by others since you agreed: server.py" in shown
    command = re.search(r"see the changes: (git diff [0-9a-f]{12})\n", shown)
    assert command is not None
    assert (
        "+# theirs" in subprocess.run(command[1].split(), cwd=work, capture_output=True, text=True, check=True).stdout
    )
    assert json.loads(said(work, "trust", "show", "--json")) == {
        "agreed": {"small": True},
        "changed_by_others": ["helper.py", "server.py"],
    }
    for answer, is_told in (("n", True), ("y", False)):
        with on_a_terminal(["trust", "show"], work) as screen:
            screen.wait_for(r"agree to these changes\? \[y/N\] ")
            screen.type(f"{answer}\r")
            assert screen.exit_code() == 0
        assert (LINE in said(work, "tools", "list")) is is_told, answer
    for number in range(120):
        (work / f"! file {number:03}\u202e").write_text("theirs")
    commit(work, "helper.py", "theirs again", author="mallory")
    assert LINE in said(work, "tools", "list")
    shown = said(work, "trust", "show")
    assert "since you agreed: ! file 000\\u202e\n" in shown
    assert re.search(r"and [23]\d more files", shown)


@pytest.mark.slow
def test_a_history_that_git_does_not_know_is_one_line(work: Path) -> None:
    agree(work)
    shutil.rmtree(work / ".git")
    assert "git cannot tell what others changed since you agreed: mcpagent trust show" in said(work, "tools", "list")
    assert "git cannot tell what others changed since you agreed" in said(work, "trust", "show")


@pytest.mark.slow
def test_a_commit_of_another_clone_is_somebody_elses_whatever_address_it_has(work: Path, tmp_path: Path) -> None:
    agree(work)
    git(tmp_path, "clone", "-q", str(work), "clone")
    commit(tmp_path / "clone", "server.py", program("forged"))  # with the person's own address
    git(work, "pull", "-q", str(tmp_path / "clone"), "HEAD")
    assert f"1 file {LINE}" in said(work, "tools", "list")


@pytest.mark.slow
def test_a_configuration_that_others_changed_is_asked_about_again_and_consent_can_be_revoked(work: Path) -> None:
    agree(work)
    assert ".mcp.json  small" in said(work, "trust", "list")
    assert "--yes revokes without a question" in said(work, "trust", "revoke", code=2)
    with on_a_terminal(["trust", "revoke"], work) as screen:
        screen.wait_for(r"\.mcp\.json  small\s+revoke these consents\?")
        screen.type("\r")
        screen.wait_for("nothing was revoked")
        assert screen.exit_code() == 0
    assert ".mcp.json  small" in said(work, "trust", "list")
    assert "revoked: small" in said(work, "trust", "revoke", "--yes")
    assert "nothing of this project was agreed to" in said(work, "trust", "revoke", code=2)
    assert "not agreed to: small" in said(work, "trust", "show")
    assert "not trusted" in said(work, "tools", "list", code=5)
    agree(work)
    text = (work / ".mcp.json").read_text().replace("settings.ini", "other.ini")
    commit(work, ".mcp.json", text, author="mallory")
    assert "not trusted" in said(work, "tools", "list", code=5)


def test_what_was_stored_for_the_project_is_revoked_whatever_its_files_say_now(tmp_path: Path) -> None:
    for now in ("{}", '{"mcpServers": {"n": {"command": "sh", "disabled": true}}}', "no JSON", ""):
        folder = tmp_path / "work"
        inner = folder / "inner"
        inner.mkdir(parents=True, exist_ok=True)
        (folder / ".git").mkdir(exist_ok=True)
        chosen = Options(environ={"MCPAGENT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}, folder=inner)
        store = TrustStore.of_user(chosen.environ)
        places = [
            folder / ".mcp.json",
            folder / ".mcpagent.toml",
            inner / ".mcp.json",
            tmp_path / "work2" / ".mcp.json",
        ]
        store.add([Description("n", str(place), str(place), ()) for place in places])
        (folder / ".mcp.json").write_text(now)
        if not now:
            (folder / ".mcp.json").unlink()
        assert revoke_consent(chosen, None, yes=True) == 0
        assert [entry.file for entry in store.entries()] == [str(places[-1])], "another project's stays"
        with pytest.raises(InputError, match="nothing of this project was agreed to"):
            revoke_consent(chosen, None, yes=True)


@pytest.mark.slow
def test_a_thousand_servers_cannot_scroll_the_first_away(tmp_path: Path) -> None:
    servers = {f"s{number}": {"command": sys.executable, "args": [str(number)]} for number in range(40)}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"first": {"command": "touch PWNED"}, **servers}}))
    with on_a_terminal(["tools", "list"], tmp_path) as screen:
        screen.wait_for(r"page 1 of (\d+): \[Enter\] next  \[n\] no ")
        assert "first" in screen.text
        assert "touch PWNED" in screen.text
        assert "allow it?" not in screen.text
        screen.type("\r")
        screen.wait_for(r"page 2 of ")
        screen.type("n\r")
        assert screen.exit_code() == 5


# --- the model ---


def settings(folder: Path, model: str) -> None:
    (folder / ".mcpagent.toml").write_text(f'model = "{model}"\n')


KEYS = {"OPENROUTER_API_KEY": "k-1", "ANTHROPIC_API_KEY": "k-2"}


@pytest.mark.slow
def test_a_projects_settings_move_no_conversation_to_another_company_unasked(tmp_path: Path) -> None:
    settings(tmp_path, "openrouter:x/y")
    for arguments in (["-p", "hello"], ["ask", "hello", "--dry-run"]):
        shown = said(tmp_path, *arguments, code=3, env=KEYS)
        assert ".mcpagent.toml" in shown
        assert "not trusted" in shown
    with on_a_terminal(["ask", "hello", "--dry-run"], tmp_path, env=KEYS) as screen:
        screen.wait_for(r"allow it\? \[N\] ")
        assert re.search(r"sends the conversation to\s+openrouter", screen.text)
        assert "openrouter:x/y" in screen.text
        screen.type("y\r")
        assert screen.exit_code() == 0
    said(tmp_path, "ask", "hello", "--dry-run", env=KEYS)
    settings(tmp_path, "openrouter:another/z")  # the consent is to the company
    said(tmp_path, "ask", "hello", "--dry-run", env=KEYS)
    settings(tmp_path, "openai:gpt-5.5")
    assert "not trusted" in said(tmp_path, "ask", "hello", "--dry-run", code=3, env={**KEYS, "OPENAI_API_KEY": "k-3"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "arguments", "env"),
    [
        ("anthropic:claude-haiku-5", [], {"ANTHROPIC_API_KEY": "k-2"}),
        ("openrouter:x/y", ["-m", "offline"], KEYS),
        ("openrouter:x/y", [], {**KEYS, "MCPAGENT_MODEL": "offline"}),
        ("openrouter:x/y", ["--trust-project"], KEYS),
        ("offline", [], KEYS),
    ],
)
def test_the_persons_own_company_and_choice_need_no_question(
    model: str, arguments: list[str], env: dict[str, Any], tmp_path: Path
) -> None:
    settings(tmp_path, model)
    assert "not trusted" not in said(tmp_path, "ask", "hello", "--dry-run", *arguments, env=env)
