"""`mcpagent skills list|show|lint`, and skills on the command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.skills.folders import pdf_forms, written
from tests.terminal.warm import run


def mcpagent(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run(arguments, folder, env={"NO_COLOR": "1"})


def test_skills_of_the_project_are_listed_and_used_once_agreed_to(tmp_path: Path) -> None:
    none = mcpagent("skills", folder=tmp_path)
    assert (none.returncode, none.stdout) == (1, "")
    pdf_forms(tmp_path / ".agents" / "skills")
    pdf_forms(tmp_path / ".claude" / "skills")
    listed = mcpagent("skills", folder=tmp_path)
    assert listed.stdout.splitlines()[0] == "pdf-forms  .agents/skills/pdf-forms  not agreed to"
    assert "has the name of" in listed.stderr
    [document] = json.loads(mcpagent("skills", "list", "--json", folder=tmp_path).stdout)
    assert (document["name"], document["scope"], document["used"]) == ("pdf-forms", "project", False)
    search = ("tools", "search", "complete a form", "--json")
    refused = mcpagent(*search, folder=tmp_path)
    assert "pdf-forms" not in refused.stdout
    assert "2 skills of .agents/skills/pdf-forms/SKILL.md, .claude/skills/pdf-forms/SKILL.md are not" in refused.stderr
    found = mcpagent(*search[:-1], "--trust-project", folder=tmp_path).stdout
    assert re.search(r" pdf-forms +\d+  skill: ", found)
    document = json.loads(mcpagent(*search, "--trust-project", folder=tmp_path).stdout)
    assert {match["name"]: match["kind"] for match in document["matches"]}["pdf-forms"] == "skill"


def test_show_prints_a_skill_as_it_is(tmp_path: Path) -> None:
    written(tmp_path / "skills", "x", body="do\x1b[31m this", more="license: MIT\nallowed-tools: Bash\n")
    shown = mcpagent("skills", "show", "skills/x", folder=tmp_path).stdout
    assert "license: MIT\n" in shown
    assert "allowed-tools: Bash (grants nothing here)\n" in shown
    assert "\x1b" not in shown
    assert "[31m this" in shown
    document = json.loads(mcpagent("skills", "show", "skills/x", "--json", folder=tmp_path).stdout)
    assert (list(document["files"]), document["metadata"]) == (["SKILL.md"], {})
    unknown = mcpagent("skills", "show", "y", folder=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert 'there is no skill "y"' in unknown.stderr


def test_lint_names_what_is_wrong_and_what_could_be_better(tmp_path: Path) -> None:
    pdf_forms(tmp_path / "good")
    ok = mcpagent("skills", "lint", "good", folder=tmp_path)
    assert (ok.returncode, ok.stdout) == (0, "ok      pdf-forms\n")
    written(tmp_path / "bad", "a--b")
    written(tmp_path / "bad", "short", description="PDF", more="version: 2\n", body="")
    done = mcpagent("skills", "lint", "bad", "none", "--json", folder=tmp_path)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert [line.partition("bad/")[2].partition(" ")[0] or line.split()[1] for line in document["failed"]] == [
        "a--b:",
        "holds",
    ]
    assert document["ok"] == {
        "short": [
            "version is no field of the specification; put it under metadata",
            "there are no instructions below the front matter",
            "the description is short: say what it does, and when to use it",
        ]
    }
