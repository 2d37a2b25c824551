"""`mcpagent skills list|show|lint`: commands that call no model and run no skill."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.text import Text

from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import open_terminal, put
from mcpagent.errors import InputError
from mcpagent.permissions.trust.consent import without_consent
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.skills.finding_skills import (
    FoundSkills,
    describe_skill,
    find_skills,
    first_of_each_name,
    skill_places,
)
from mcpagent.skills.skill_folders import SKILL_FILE, Skill
from mcpagent.utilities.text.safe_text import safe_line, visible

LONG_LINES, LONG_CHARACTERS = 500, 20_000
"""Thresholds for a warning about long instructions: the specification recommends fewer than 500 lines and 5,000 tokens.
"""


def list_skills(options: Options) -> ExitCode:
    """Run `mcpagent skills list`. Exit code 1: no skills were found."""
    terminal = open_terminal(options.color)
    found = find_skills(skill_places(options.folder, options.environ))
    named = first_of_each_name(found.skills)
    terminal.warn(*found.problems, *named.problems)
    waiting = _waiting(found.skills, options)
    lines = [
        _line(skill, options, is_waiting=skill.digest in waiting)
        for skill in named.skills
    ]
    documents = [
        _document(skill, is_waiting=skill.digest in waiting) for skill in named.skills
    ]
    terminal.report(options, documents, *lines)
    if waiting:
        put(
            terminal.err,
            "those not agreed to are asked about when the chat starts",
            style="dim",
        )
    if not named.skills and options.output != "json":
        put(
            terminal.err,
            f"no skills; put folders with a {SKILL_FILE} into .agents/skills",
            style="dim",
        )
        return ExitCode.ERROR
    return ExitCode.OK


def show_skill(options: Options, name: str) -> ExitCode:
    """Run `mcpagent skills show`. Raises `InputError` for an unknown skill."""
    skill = _named(name, options)
    document = _document(skill, is_waiting=skill.digest in _waiting([skill], options))
    document |= {
        "digest": skill.digest,
        "files": dict(skill.files),
        "instructions": skill.instructions,
    }
    rows = {
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": f"{skill.allowed_tools} (grants nothing here)"
        if skill.allowed_tools
        else "",
        **skill.metadata,
        "folder": str(skill.folder),
        "SHA-256": skill.digest,
        "files": ", ".join(skill.files),
    }
    lines = [
        f"{safe_line(key, 60)}: {visible(text, kept='')}"
        for key, text in rows.items()
        if text
    ]
    shown = visible(skill.instructions, kept="\n\t").split("\n")
    open_terminal(options.color).report(
        options, document, skill.name, *lines, "", *shown, exact=True
    )
    return ExitCode.OK


def lint_skills(options: Options, folders: Sequence[Path]) -> ExitCode:
    """Run `mcpagent skills lint`. Exit code 3: a skill violates the specification."""
    places = skill_places(options.folder, options.environ)
    if folders:
        places = [(options.folder / folder.expanduser(), "given") for folder in folders]
    found = find_skills(places)
    failed = [line.removeprefix("skill left out: ") for line in found.problems]
    for place, scope in places if folders else ():
        if find_skills([(place, scope)]) == FoundSkills():
            failed.append(
                f"{safe_line(str(place), 200)} holds no skill; a skill is a folder with a {SKILL_FILE}"
            )
    advice = {skill.name: _advice(skill) for skill in found.skills}
    lines = [Text.assemble(("failed  ", "red"), line) for line in failed]
    for skill in found.skills:
        lines.append(Text.assemble(("ok      ", "green"), skill.name))
        lines += [Text(f"        {line}", "yellow") for line in advice[skill.name]]
    document = {"failed": failed, "ok": advice}
    open_terminal(options.color).report(options, document, *lines)
    return ExitCode.CONFIG if failed else ExitCode.OK


def _advice(skill: Skill) -> list[str]:
    """Return the recommendations of the specification that a skill does not follow."""
    advice = [
        f"{field} is no field of the specification; put it under metadata"
        for field in skill.unknown
    ]
    if not skill.instructions:
        advice.append("there are no instructions below the front matter")
    if (
        skill.instructions.count("\n") >= LONG_LINES
        or len(skill.instructions) > LONG_CHARACTERS
    ):
        advice.append("the instructions are long; move parts into references/")
    if len(skill.description.split()) < 5:
        advice.append("the description is short: say what it does, and when to use it")
    return advice


def _waiting(skills: Sequence[Skill], options: Options) -> set[str]:
    """Return the digests of the skills to which the user has not agreed."""
    by_description = {
        describe_skill(skill): skill for skill in skills if skill.scope == "project"
    }
    waiting = without_consent(by_description, TrustStore.of_user(options.environ))
    return {by_description[item].digest for item in waiting}


def _named(name: str, options: Options) -> Skill:
    skills = find_skills(skill_places(options.folder, options.environ)).skills
    if "/" in name or (options.folder / name / SKILL_FILE).is_file():
        found = find_skills([(options.folder / Path(name).expanduser(), "given")])
        if found.problems:
            raise InputError(found.problems[0])
        skills = found.skills
        name = skills[0].name if len(skills) == 1 else name
    known = {skill.name: skill for skill in reversed(skills)}
    if name not in known:
        hint = did_you_mean(
            get_close_matches(name, known), "mcpagent skills list shows them"
        )
        raise InputError(f'there is no skill "{safe_line(name, 80)}"; {hint}')
    return known[name]


def _line(skill: Skill, options: Options, *, is_waiting: bool) -> Text:
    state = ("  not agreed to", "yellow") if is_waiting else ""
    place = (f"  {short_path(str(skill.folder), options.folder)}", "dim")
    return Text.assemble(
        (skill.name, "bold"), place, state, f"\n  {safe_line(skill.description, 200)}"
    )


def _document(skill: Skill, *, is_waiting: bool) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "folder": str(skill.folder),
        "scope": skill.scope,
        "used": not is_waiting,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed_tools": skill.allowed_tools,
        "metadata": dict(skill.metadata),
    }
