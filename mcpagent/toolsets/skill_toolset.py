"""Skills as tools: search finds them, and a call returns the instructions or a file of a skill."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from mcpagent.errors import InputError
from mcpagent.history.intake.files import content_of_bytes
from mcpagent.run.agent_run import current_run
from mcpagent.skills.finding_skills import find_skills, first_of_each_name
from mcpagent.skills.skill_folders import SKILL_FILE, Skill, SkillError
from mcpagent.skills.skill_scripts import run_script, script_words, scripts_of
from mcpagent.toolsets.sources import AnyTools
from mcpagent.toolsets.unmatched_names import Completeness
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.text.for_model import fenced, for_model, line_for_model, spelled
from mcpagent.values.approval import Rule
from mcpagent.values.messages import Content, Pinned, Text, ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput, Toolset

logger = logging.getLogger("mcpagent")

SKILLS = "skills"
"""The source ID of all skills, and their category in the system prompt."""

RUN_SCRIPT = "run_skill_script"
_MOST_LISTED = 40
"""Maximum number of files that a skill's instructions list; the rest are counted."""

_PATH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "description": "A file of the skill; without it, its instructions",
        }
    },
}


class SkillsToolset(Toolset):
    """The skills in these folders, or these skills. Folders are read when the agent starts.

    A folder that is not a valid skill is omitted with a warning, and so is a second skill of the same name.
    """

    label = "skills"
    defers = True

    def __init__(
        self, folders: Sequence[Path] = (), skills: Sequence[Skill] = ()
    ) -> None:
        self._folders = tuple(folders)
        self._skills = tuple(skills)
        self._tools: list[Tool] | None = None

    @property
    def known(self) -> Completeness:
        """Whether the list of skills is complete: `ALL` after the folders were read."""
        if self._tools is None:
            return Completeness.NOTHING
        return Completeness.ALL

    async def tools(self) -> list[Tool]:
        """Return a tool for each skill, and one that runs scripts if there are any."""
        return list(self._tools or ())

    async def __aenter__(self) -> SkillsToolset:
        if self._tools is None:
            found = await asyncio.to_thread(
                find_skills, [(folder, "given") for folder in self._folders]
            )
            named = first_of_each_name((*self._skills, *found.skills))
            for line in (*found.problems, *named.problems):
                logger.warning(line)
            self._tools = skill_tools(named.skills)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: there is nothing to close."""


def skills_toolset(*folders: str | Path) -> SkillsToolset:
    """Return Agent Skills as tools that are found by search, for `Agent(tools=[...])`.

    `add_tool` loads the instructions of a skill. Their files are read through the skill's own tool, and each run of a
    script needs an approval (`run_skill_script`), unless a rule allows it.

    Args:
        folders: Folders of skills, or of a single skill: a folder with a `SKILL.md`.
    """
    for folder in folders:
        expect("skills_toolset", folder, (str, Path), "paths of folders")
    return SkillsToolset([Path(folder).expanduser().absolute() for folder in folders])


def with_joined_skills(sources: Sequence[AnyTools]) -> list[AnyTools]:
    """Return the sources with all toolsets of skills merged into one, at the end, since they share the tool that runs
    scripts.
    """
    toolsets = [one for one in sources if isinstance(one, SkillsToolset)]
    if len(toolsets) < 2:
        return list(sources)
    folders = [folder for one in toolsets for folder in one._folders]
    skills = [skill for one in toolsets for skill in one._skills]
    others = [one for one in sources if not isinstance(one, SkillsToolset)]
    return [*others, SkillsToolset(folders, skills)]


def skill_tools(skills: Sequence[Skill]) -> list[Tool]:
    """Return the tools of these skills, which must have different names."""
    with_scripts = {skill.name: skill for skill in skills if scripts_of(skill)}
    tools = [
        _skill_tool(skill, has_runner=skill.name in with_scripts) for skill in skills
    ]
    if with_scripts:
        tools.append(_script_tool(with_scripts))
    return tools


def _offered_name(definition: ToolDefinition) -> str:
    """Return the name of a tool in the current conversation."""
    run = current_run()
    if run is None:
        return definition.name
    return run.tools.names.get(definition.key, definition.name)


def _skill_definition(skill: Skill) -> ToolDefinition:
    return ToolDefinition(
        skill.name,
        for_model(skill.description),
        _PATH,
        original_name=skill.name,
        category=SKILLS,
        source=SKILLS,
        read_only=True,
        tags=(line_for_model(skill.compatibility, 200),) if skill.compatibility else (),
    )


def _skill_tool(skill: Skill, *, has_runner: bool) -> Tool:
    return Tool(
        _skill_definition(skill),
        partial(_read, skill, has_runner),
        deferred=True,
        safe_to_repeat=True,
        large_result_tokens=0,
        instructs=True,
        companions=(_RUNNER.key,) if has_runner else (),
    )


async def _read(
    skill: Skill, has_runner: bool, arguments: dict[str, Any]
) -> ToolOutput:
    path = arguments.get("path") or SKILL_FILE
    if path == SKILL_FILE:
        text = skill_text(
            skill,
            has_runner=has_runner,
            name=_offered_name(_skill_definition(skill)),
            runner=_offered_name(_RUNNER),
        )
        return ToolOutput((Text(text),), changes=(Pinned(),))
    try:
        data = await asyncio.to_thread(skill.content, path)
        found = content_of_bytes(
            data, path.rpartition("/")[2], line_for_model(path, 100)
        )
    except (SkillError, InputError) as error:
        return ToolOutput.of_text(str(error), error="invalid_arguments")
    content: Content = Text(found) if isinstance(found, str) else found
    return ToolOutput((content,))


def skill_text(
    skill: Skill, *, has_runner: bool, name: str = "", runner: str = RUN_SCRIPT
) -> str:
    """Return the text that loads a skill: its instructions, its files, and how to use them.

    `name` and `runner` are the names under which the model has the two tools, which may differ from the usual ones.
    """
    lines = [
        fenced(
            for_model(skill.instructions), f'Instructions of the skill "{skill.name}"'
        )
    ]
    files = [spelled(path) for path in skill.files if path != SKILL_FILE]
    if files:
        more = ""
        if len(files) > _MOST_LISTED:
            more = f" and {len(files) - _MOST_LISTED} more"
        lines.append(f"Its files: {', '.join(files[:_MOST_LISTED])}{more}.")
        lines.append(f'Read one with {name or skill.name}(path="...").')
    if has_runner:
        lines.append(
            f'Run a script with {runner}(skill="{skill.name}", script="...", arguments=[...]).'
        )
    return "\n".join(lines)


_RUNNER = ToolDefinition(
    RUN_SCRIPT,
    "Run a script of a skill in the working folder and return its output. The person is asked before each run.",
    {"type": "object"},
    original_name=RUN_SCRIPT,
    category=SKILLS,
    source=SKILLS,
    read_only=False,
)


def _script_tool(skills: dict[str, Skill]) -> Tool:
    text = {"type": "string"}
    definition = replace(
        _RUNNER,
        parameters={
            "type": "object",
            "properties": {
                "skill": {
                    **text,
                    "enum": sorted(skills),
                    "description": "The skill that has the script",
                },
                "script": {
                    **text,
                    "description": "Its path in the skill, such as scripts/fill.py",
                },
                "arguments": {
                    "type": "array",
                    "items": text,
                    "description": "Words that the script is started with",
                },
            },
            "required": ["skill", "script"],
        },
    )

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        skill, script, words = _script_call(skills, arguments)
        try:
            done = await run_script(skill, script, words, Path.cwd(), os.environ)
        except SkillError as error:
            return ToolOutput.of_text(str(error), error="failed")
        text = (
            f"{done.ending}\n{fenced(done.output, 'Output')}"
            if done.output
            else done.ending
        )
        return ToolOutput.of_text(
            text, error=None if done.ending == "exit code 0" else "failed"
        )

    def asks(tool: ToolDefinition, arguments: dict[str, Any]) -> ToolDefinition:
        """Return the definition with the exact command of the script, so that an approval covers this command and the
        file.
        """
        try:
            skill, script, words = _script_call(skills, arguments)
            command = shlex.join(script_words(skill, script, words))
        except (SkillError, KeyError, TypeError):  # the call will fail anyway
            return tool
        return replace(
            tool,
            description=f"Runs {command} in {Path.cwd()} (SHA-256 {skill.digest} of the whole skill)",
        )

    # A rule instead of `approval`, so that rules that allow it, and the user's earlier answers, have precedence.
    rule = Rule("*", "ask", "the skills' own rule", RUN_SCRIPT)
    return Tool(
        definition,
        run,
        deferred=True,
        asks=asks,
        rules=(rule,),
        timeout_seconds=float("inf"),
    )


def _script_call(
    skills: dict[str, Skill], arguments: dict[str, Any]
) -> tuple[Skill, str, list[str]]:
    """Return the skill, the script and its arguments. Raises `KeyError` or `TypeError` for invalid ones."""
    return (
        skills[arguments["skill"]],
        arguments["script"],
        [str(word) for word in arguments.get("arguments") or ()],
    )
