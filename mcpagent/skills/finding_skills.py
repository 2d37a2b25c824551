"""Find skills in the folders that a program names, in the user's own folder, and in a project's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcpagent.permissions.trust.descriptions import Description, Fact, real_place
from mcpagent.skills.skill_folders import (
    MAX_BYTES,
    MAX_FILES,
    SKILL_FILE,
    FileLimits,
    Scope,
    Skill,
    SkillError,
    read_skill,
)
from mcpagent.skills.skill_scripts import scripts_of
from mcpagent.utilities.filesystem.bounded_files import is_nobody_elses
from mcpagent.utilities.filesystem.user_folders import project_folders
from mcpagent.utilities.text.safe_text import safe_line

MAX_SKILLS = 500
"""Maximum number of skills in one folder of skills."""

MAX_ALL_FILES, MAX_ALL_BYTES = 10_000, 200_000_000
"""Limits for all skills together, since they are read before the user has agreed to them."""

IN_PROJECT = (".agents/skills", ".claude/skills")


@dataclass(frozen=True, slots=True)
class FoundSkills:
    """The skills that were found, one for each name. `problems` has a line for each skipped folder, with the reason."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


def own_skills_folder(environ: Mapping[str, str]) -> Path:
    """Return `~/.mcpagent/skills`, or `skills` in the folder `MCPAGENT_HOME`."""
    home = environ.get("MCPAGENT_HOME")
    if home:
        return Path(home).expanduser() / "skills"
    return Path(environ.get("HOME") or Path.home()) / ".mcpagent" / "skills"


def skill_places(folder: Path, environ: Mapping[str, str]) -> list[tuple[Path, Scope]]:
    """Return the folders of skills for work in a folder: the project's, nearest first, then the user's own."""
    places: list[tuple[Path, Scope]] = [
        (parent / name, "project")
        for parent in reversed(project_folders(folder))
        for name in IN_PROJECT
    ]
    return [*places, (own_skills_folder(environ), "user")]


def find_skills(places: Iterable[tuple[Path, Scope]]) -> FoundSkills:
    """Read all skills. Each place is a folder of skills, or the folder of one skill; missing folders are skipped."""
    skills: list[Skill] = []
    problems: list[str] = []
    seen: set[str] = set()
    left = FileLimits(MAX_ALL_FILES, MAX_ALL_BYTES)
    for place, scope in places:
        real = os.path.realpath(place)
        if real in seen:
            continue
        seen.add(real)
        for folder in _skill_folders(place, problems):
            most = FileLimits(min(MAX_FILES, left.files), min(MAX_BYTES, left.bytes))
            try:
                skill = read_skill(folder, _scope_of(folder, place, scope), most)
            except SkillError as error:
                problems.append(f"skill left out: {error}")
                continue
            skills.append(skill)
            left = FileLimits(left.files - len(skill.files), left.bytes - skill.size)
    return FoundSkills(tuple(skills), tuple(problems))


def _scope_of(folder: Path, place: Path, scope: Scope) -> Scope:
    """Return the scope of a skill: a user's skill that others may have written needs consent like a project's."""
    paths = (place, folder, folder / SKILL_FILE)
    if scope == "user" and not all(map(is_nobody_elses, paths)):
        return "project"
    return scope


def _skill_folders(place: Path, problems: list[str]) -> list[Path]:
    if (place / SKILL_FILE).is_file():
        return [place]
    try:
        found = sorted(
            folder for folder in place.iterdir() if (folder / SKILL_FILE).is_file()
        )
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(
            f"skills left out: {safe_line(str(place), 200)} cannot be read: {error.strerror}"
        )
        return []
    if len(found) > MAX_SKILLS:
        problems.append(
            f"skills left out: {safe_line(str(place), 200)} has {len(found):,}, of which {MAX_SKILLS} are used"
        )
    return found[:MAX_SKILLS]


def first_of_each_name(skills: Sequence[Skill]) -> FoundSkills:
    """Return the first skill of each name, and a line for each skill with the name of an earlier one."""
    named: dict[str, Skill] = {}
    problems: list[str] = []
    for skill in skills:
        first = named.setdefault(skill.name, skill)
        if first is not skill:
            problems.append(
                f"skill left out: {safe_line(str(skill.folder), 200)} has the name of "
                f"{safe_line(str(first.folder), 200)}; rename one"
            )
    return FoundSkills(tuple(named.values()), tuple(problems))


def describe_skill(skill: Skill) -> Description:
    """Describe a skill for the user's consent, which applies to the content of its files."""
    file = str(skill.folder / SKILL_FILE)
    facts = [
        Fact("tells the model", skill.description),
        Fact("has", f"{len(skill.files)} files, SHA-256 {skill.digest}"),
    ]
    if scripts := scripts_of(skill):
        facts.append(Fact("has scripts, each run asked about", ", ".join(scripts)))
    return Description(skill.name, real_place(file), file, tuple(facts), "skill")
