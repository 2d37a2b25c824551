"""Scripts of skills run as words, without a shell and without secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mcpagent.skills.finding_skills import describe_skill
from mcpagent.skills.skill_folders import SkillError, read_skill
from mcpagent.skills.skill_scripts import run_script, script_words, scripts_of
from tests.skills.folders import written
from tests.tables import each_row

ENVIRON = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "sk-secret"}
SHOWS = "import os, sys\nprint(sys.argv[1:], os.getcwd(), os.environ.get('OPENAI_API_KEY'))\nsys.exit(3)\n"


async def test_a_script_gets_its_words_the_working_folder_and_no_secret(tmp_path: Path) -> None:
    folder = written(tmp_path / "skills", "x", files={"scripts/shows.py": SHOWS, "scripts/other.py": "x = 1"})
    done = await run_script(read_skill(folder), "scripts/shows.py", ["a b", "$(id)", "; ls"], tmp_path, ENVIRON)
    assert done.output == f"['a b', '$(id)', '; ls'] {tmp_path} None"
    assert done.ending == "exit code 3"


async def test_compiled_files_beside_a_script_are_neither_written_nor_used(tmp_path: Path) -> None:
    folder = written(tmp_path, "x", files={"scripts/a.py": "import b\nprint(b.WORD)", "scripts/b.py": "WORD = 'good'"})
    skill = read_skill(folder)
    assert (await run_script(skill, "scripts/a.py", [], tmp_path, ENVIRON)).output == "good"
    assert sorted(path.name for path in (folder / "scripts").iterdir()) == ["a.py", "b.py"]


def test_a_script_is_started_by_its_interpreter_or_by_itself(tmp_path: Path) -> None:
    folder = written(tmp_path, "x", files={"scripts/a.py": "", "scripts/run": "#!/bin/sh\n", "notes.md": "text"})
    (folder / "scripts" / "run").chmod(0o755)
    skill = read_skill(folder)
    assert script_words(skill, "scripts/a.py", ["-v"]) == [sys.executable, str(folder / "scripts/a.py"), "-v"]
    assert script_words(skill, "scripts/run", []) == [str(folder / "scripts/run")]
    with pytest.raises(SkillError, match=r"notes\.md is no script"):
        script_words(skill, "notes.md", [])
    with pytest.raises(SkillError, match="has no file"):
        script_words(skill, "../x/scripts/a.py", [])


async def test_a_script_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    folder = written(tmp_path, "x", files={"scripts/run": "#!/nowhere/sh\n"})
    (folder / "scripts" / "run").chmod(0o755)
    for words in ([], ["a\0b"]):
        with pytest.raises(SkillError, match=r"scripts/run cannot be started: .+"):
            await run_script(read_skill(folder), "scripts/run", words, tmp_path, ENVIRON)


async def _changed(folder: Path) -> None:
    (folder / "scripts" / "helper.py").write_text("WORD = 'bad'")


async def _added(folder: Path) -> None:
    (folder / "scripts" / "json.py").write_text("print('bad')")


async def _removed(folder: Path) -> None:
    (folder / "notes.md").unlink()


@each_row("change, path", [(_changed, "scripts/helper.py"), (_added, "scripts/json.py"), (_removed, "notes.md")])
async def test_a_script_runs_with_the_files_alone_that_were_agreed_to(
    change: Callable[[Path], Awaitable[None]], path: str, tmp_path: Path
) -> None:
    """Python takes modules from the folder of the script, so a new file there may run in place of a known one."""
    files = {"scripts/a.py": "import json, helper\nprint(helper.WORD)", "scripts/helper.py": "WORD = 'good'"}
    folder = written(tmp_path, "x", files={**files, "notes.md": "text"})
    skill = read_skill(folder)
    assert (await run_script(skill, "scripts/a.py", [], tmp_path, ENVIRON)).output == "good"
    await change(folder)
    with pytest.raises(SkillError, match=f"{path} changed since the skill was read"):
        await run_script(skill, "scripts/a.py", [], tmp_path, ENVIRON)


def test_whatever_can_be_run_is_a_script_and_nothing_else_is(tmp_path: Path) -> None:
    runs = ("top.py", "a/b/tool.sh", "scripts/run", "more/scripts/x/run")
    others = ("notes.md", "myscripts/run", "scripts.txt")
    folder = written(tmp_path, "x", files=dict.fromkeys((*runs, *others), "#!/bin/sh\n"))
    for path in (*runs, *others):
        (folder / path).chmod(0o755)
    skill = read_skill(folder)
    assert set(scripts_of(skill)) == set(runs)
    [shown] = [fact.text for fact in describe_skill(skill).facts if "scripts" in fact.what]
    assert set(shown.split(", ")) == set(runs)
    for path in runs:
        assert script_words(skill, path, [])[-1] == str(folder / path)
    for path in others:
        with pytest.raises(SkillError, match="is no script"):
            script_words(skill, path, [])
