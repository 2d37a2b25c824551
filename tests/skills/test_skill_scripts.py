"""Scripts of skills run as words, without a shell and without secrets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcpagent.skills.skill_folders import SkillError, read_skill
from mcpagent.skills.skill_scripts import run_script, script_words
from tests.skills.folders import written

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
