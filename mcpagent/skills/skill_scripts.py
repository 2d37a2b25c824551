"""Run a script of a skill: as a list of words, never through a shell, and without the user's secrets."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from mcpagent.config import ServerConfig
from mcpagent.permissions.trust.launches import child_environment
from mcpagent.skills.skill_folders import Skill, SkillError, require_unchanged
from mcpagent.utilities.processes.child_programs import ProgramOutput, run_program
from mcpagent.utilities.text.safe_text import safe_line

SECONDS = 300.0
"""Timeout of one script, after which the script and its child processes are ended."""

_INTERPRETERS: Mapping[str, str] = {
    ".py": sys.executable,
    ".sh": "bash",
    ".bash": "bash",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
}


def scripts_of(skill: Skill) -> tuple[str, ...]:
    """Return the files that can run: those with the suffix of an interpreter, and all in folders named `scripts`."""
    return tuple(
        path
        for path in skill.files
        if PurePosixPath(path).suffix in _INTERPRETERS
        or "scripts" in PurePosixPath(path).parts[:-1]
    )


def script_words(skill: Skill, script: str, arguments: Sequence[str]) -> list[str]:
    """Return the program and arguments that run a script. Raises `SkillError` if the file is no script, or has
    changed.
    """
    skill.content(script)
    path = str(skill.folder / script)
    interpreter = _INTERPRETERS.get(PurePosixPath(script).suffix)
    if interpreter is None:
        if script not in scripts_of(skill) or not os.access(path, os.X_OK):
            known = ", ".join(sorted(_INTERPRETERS))
            raise SkillError(
                f'skill "{skill.name}": {safe_line(script, 100)} is no script: it ends in none of {known}, '
                "and is no executable in a folder scripts"
            )
        return [path, *arguments]
    program = shutil.which(interpreter)
    if program is None:
        raise SkillError(
            f'skill "{skill.name}": {safe_line(script, 100)} needs {interpreter}; install it'
        )
    return [program, path, *arguments]


async def run_script(
    skill: Skill,
    script: str,
    arguments: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
) -> ProgramOutput:
    """Run the script in the working folder. Raises `SkillError` if it cannot run.

    Scripts import and read other files of their skill, so all files must be unchanged.
    """
    await asyncio.to_thread(require_unchanged, skill)
    words = script_words(skill, script, arguments)
    # Python must not use compiled files next to the script, because the user did not agree to their content.
    environment = child_environment(ServerConfig(skill.name), environ) | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPYCACHEPREFIX": os.devnull,
    }
    try:
        return await run_program(words, folder, environment, _ignore, seconds=SECONDS)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SkillError(
            f'skill "{skill.name}": {safe_line(script, 100)} cannot be started: {safe_line(reason, 120)}'
        ) from None


def _ignore(_line: str) -> None:
    """Ignore the line: the model receives the whole output later."""
