"""`mcpagent cards check|show` and `--card`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal.warm import run

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "cards"


def mcpagent(*arguments: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return run(arguments, folder, stdin=text, env={"MCPAGENT_PYTHON": sys.executable, "NO_COLOR": "1"})


def test_good_cards_are_ok_and_bad_ones_named(tmp_path: Path) -> None:
    own = tmp_path / "home" / "config" / "cards"
    shutil.copytree(EXAMPLES, own)
    # Those of the user's own folders need no yes, the others say what they ask for.
    for folder, mark in ((own, "ok"), (EXAMPLES, "asks")):
        done = mcpagent("cards", "check", str(folder), folder=tmp_path)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert [line.split()[:2] for line in lines if not line.startswith(" ")] == [
            [mark, "bookkeeper"],
            [mark, "concierge"],
            [mark, "timekeeper"],
        ]
        assert any("mcpagent.demo.server" in line for line in lines) is (mark == "asks")
    (tmp_path / "a.md").write_text("---\nskills: [x]\n---\nHi\n")
    (tmp_path / "b.md").write_text("---\ntool_search: true\n---\nHi\n")
    (tmp_path / "c.md").write_text("---\nservers: [nope]\n---\nHi\n")
    done = mcpagent("cards", "check", "a.md", "b.md", "c.md", "none.md", "--json", folder=tmp_path)
    assert done.returncode == 3
    reports = json.loads(done.stdout)
    assert [report["error"] and report["error"].split(": ")[0] for report in reports] == [
        None,
        "'tool_search' must be a mapping in b.md",
        "'servers' names 'nope' in c.md, which is not configured",
        "none.md does not exist",
    ]
    assert reports[0]["warnings"] == ["a.md: 'skills' has no counterpart here and does nothing"]
    plain = mcpagent("cards", "check", "b.md", folder=tmp_path)
    assert plain.stdout.startswith("failed  'tool_search' must be a mapping in b.md: Write 'tool_search: {enabled: tr")
    assert "Traceback" not in done.stderr + plain.stderr


def test_show_writes_the_card_with_its_variables(tmp_path: Path) -> None:
    done = mcpagent("cards", "show", str(EXAMPLES / "timekeeper.md"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("---\nname: timekeeper\n")
    assert "command: ${MCPAGENT_PYTHON:-python3}" in done.stdout
    (tmp_path / "again.md").write_text(done.stdout)
    assert mcpagent("cards", "show", "again.md", folder=tmp_path).stdout == done.stdout
    document = json.loads(mcpagent("cards", "show", str(EXAMPLES), "--json", folder=tmp_path).stdout)
    assert document["name"] == "concierge"
    assert document["agents"] == ["timekeeper", "bookkeeper"]


def test_show_redacts_secrets_that_a_card_contains_in_plain_text(tmp_path: Path) -> None:
    secrets = [f"qZ8kP2mW9xT4vB7nL3c{letter}" for letter in "RSTU"]
    servers = {
        "a": {"command": "x", "args": ["--token", secrets[0]], "env": {"API_TOKEN": secrets[1]}},
        "b": {"url": "https://b.example/mcp", "headers": {"Authorization": f"Bearer {secrets[2]}"}},
    }
    connected = [{"target": "https://c.example", "headers": {"X-API-Key": secrets[3]}}]
    fields = f"mcp_servers: {json.dumps(servers)}\nmcp_connect: {json.dumps(connected)}"
    (tmp_path / "a.md").write_text(f"---\nname: a\n{fields}\n---\nHi.\n")
    for arguments in ([], ["--json"]):
        done = mcpagent("cards", "show", "a.md", *arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("[redacted]") == len(secrets)
        assert not [secret for secret in secrets if secret in done.stdout]


@pytest.mark.slow
def test_a_card_answers_on_the_command_line(tmp_path: Path) -> None:
    for command in ("ask", "chat"):
        done = mcpagent(
            command, "--card", str(EXAMPLES), "--trust-project", "-q", folder=tmp_path, text="What is 12 * 12?"
        )
        assert done.returncode == 0, done.stderr
        assert "144" in done.stdout
    wrong = mcpagent("ask", "--card", "nothing.md", "hello", folder=tmp_path)
    assert wrong.returncode == 3
    assert "nothing.md does not exist" in wrong.stderr
