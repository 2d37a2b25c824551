"""Read the folder of a skill, by the specification of Agent Skills (agentskills.io), within limits.

The digest of every file is recorded, so that the user consents to exactly this content. Later, only listed, unchanged
files are read or run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, read_bounded
from mcpagent.utilities.text.front_matter import bounded_yaml, split_front_matter
from mcpagent.utilities.text.safe_text import safe_line, with_codes

Scope: TypeAlias = Literal["given", "user", "project"]
"""Origin of a skill: a folder that the program named, the user's own folder, or a project's folder, whose skills need
consent.
"""

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 100_000
"""Maximum size of a `SKILL.md`: some 25,000 tokens, five times the recommendation of the specification."""

MAX_FRONT_MATTER = 8_000
"""Maximum number of characters of the YAML: parsing takes a tenth of a second, before the user has agreed to the
skill.
"""

MAX_FILES, MAX_BYTES = 1_000, 20_000_000
"""Limits for all files of a skill."""

MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1_024, 500
"""Maximum number of characters, by the specification."""

FIELDS = frozenset(
    "name description license compatibility metadata allowed-tools".split()  # noqa: SIM905
)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LEFT_OUT = frozenset({"__pycache__", ".git"})
"""Folders that are ignored."""


class FileLimits(NamedTuple):
    """The maximum number of files to read, and their maximum total size."""

    files: int = MAX_FILES
    bytes: int = MAX_BYTES


class SkillError(ConfigError):
    """Raised for a folder that is no valid skill, and for an unusable file of a skill."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A valid skill. `files` has the SHA-256 digest of each file by its path in the folder, with slashes.

    `size` is the number of bytes of all files. `unknown` are fields of the front matter that are not in the
    specification.
    """

    name: str
    description: str
    instructions: str
    folder: Path
    files: Mapping[str, str]
    size: int = 0
    scope: Scope = "given"
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    unknown: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the names and contents of all files."""
        return hashlib.sha256(
            json.dumps(sorted(self.files.items())).encode()
        ).hexdigest()

    def content(self, path: str) -> bytes:
        """Return the content of a listed file. Raises `SkillError` for any other path, and for a changed file."""
        digest = self.files.get(path)
        if digest is None:
            raise SkillError(
                f'skill "{self.name}" has no file {safe_line(path, 100)!r}'
            )
        data = _content(self.folder, path)
        if hashlib.sha256(data).hexdigest() != digest:
            raise SkillError(
                f'skill "{self.name}": {safe_line(path, 100)} changed since the skill was read; start again'
            )
        return data


def read_skill(
    folder: Path,
    scope: Scope = "given",
    most: FileLimits = FileLimits(),  # noqa: B008 - a value
) -> Skill:
    """Return the skill in a folder. Raises `SkillError` with all violations of the specification in one line."""
    shown = safe_line(str(folder), 200)
    try:
        data = read_bounded(folder / SKILL_FILE, MAX_SKILL_BYTES)
    except FileTooLargeError:
        raise SkillError(
            f"{shown}: {SKILL_FILE} is larger than {MAX_SKILL_BYTES // 1_000} kB; move parts into other files"
        ) from None
    except OSError as error:
        raise SkillError(
            f"{shown}: {SKILL_FILE} cannot be read: {error.strerror or type(error).__name__}"
        ) from None
    fields, body = _parts(data, shown)
    problems = violations(fields, folder.absolute().name)
    if problems:
        raise SkillError(f"{shown}: {'; '.join(problems)}")
    files, size = _listed_files(folder, most)
    if files.get(SKILL_FILE) != hashlib.sha256(data).hexdigest():
        raise SkillError(
            f"{shown}: {SKILL_FILE} changed while it was read; start again"
        )
    metadata = fields.get("metadata") or {}
    return Skill(
        name=fields["name"],
        description=" ".join(fields["description"].split()),
        instructions=body.strip(),
        folder=folder.resolve(),
        files=files,
        size=size,
        scope=scope,
        license=fields.get("license") or "",
        compatibility=fields.get("compatibility") or "",
        allowed_tools=_joined(fields.get("allowed-tools")),
        metadata={str(key): str(value) for key, value in metadata.items()},
        unknown=tuple(safe_line(str(key), 60) for key in fields if key not in FIELDS),
    )


def require_unchanged(skill: Skill) -> None:
    """Raise `SkillError` if a file of the skill was changed, removed or added since the skill was read."""
    now, _ = _listed_files(skill.folder, FileLimits())
    changed = sorted(path for path, _ in now.items() ^ skill.files.items())
    if changed:
        raise SkillError(
            f'skill "{skill.name}": {safe_line(changed[0], 100)} changed since the skill was read; start again'
        )


def _parts(data: bytes, shown: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the Markdown of a `SKILL.md`. Raises `SkillError`."""
    import yaml

    try:
        split = split_front_matter(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SkillError(
            f"{shown}: {SKILL_FILE} is not UTF-8; save it as UTF-8"
        ) from None
    if split is None:
        raise SkillError(
            f"{shown}: {SKILL_FILE} has no front matter; begin it with a line ---, name and description, and a line ---"
        )
    if len(split[0]) > MAX_FRONT_MATTER:
        raise SkillError(
            f"{shown}: the front matter has {len(split[0]):,} characters; leave at most {MAX_FRONT_MATTER:,}"
        )
    try:
        fields = bounded_yaml(split[0], numbers=False)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error)
        raise SkillError(
            f"{shown}: the front matter is not YAML: {safe_line(problem, 120)}"
        ) from None
    if not isinstance(fields, dict):
        raise SkillError(
            f"{shown}: the front matter has no fields; write name: and description:"
        )
    return fields, split[1]


def violations(fields: Mapping[Any, Any], folder_name: str) -> list[str]:
    """Return each violation of the specification, with its fix."""
    found: list[str] = []
    name = fields.get("name")
    if not isinstance(name, str) or not (
        len(name) <= MAX_NAME and _NAME.fullmatch(name)
    ):
        found.append(
            f"name {safe_line(str(name), 80)!r} is not 1 to {MAX_NAME} lowercase letters, digits and single hyphens"
        )
    elif name != folder_name:
        found.append(
            f"name {name!r} is not that of its folder, {safe_line(folder_name, 80)!r}; rename one"
        )
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        found.append(
            "description is missing; describe what the skill does and when to use it"
        )
    elif len(description) > MAX_DESCRIPTION:
        found.append(
            f"description has {len(description):,} characters; shorten it to {MAX_DESCRIPTION:,}"
        )
    for key in ("license", "compatibility"):
        if not isinstance(fields.get(key), str | None):
            found.append(f"{key} is no text; put it in quotes")
    compatibility = fields.get("compatibility")
    if (
        isinstance(compatibility, str)
        and not 1 <= len(compatibility) <= MAX_COMPATIBILITY
    ):
        found.append(
            f"compatibility has {len(compatibility):,} characters; write 1 to {MAX_COMPATIBILITY}"
        )
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict | None):
        found.append("metadata is no mapping; write a name and a text in each line")
    elif any(isinstance(value, dict | list) for value in (metadata or {}).values()):
        found.append(
            "metadata has values that are no texts; write a name and a text in each line"
        )
    allowed = fields.get("allowed-tools")
    if not isinstance(allowed, str | list | None):
        found.append(
            "allowed-tools is no text; write the names with spaces between them"
        )
    return found


def _joined(allowed: str | list[Any] | None) -> str:
    if isinstance(allowed, list):
        return " ".join(map(str, allowed))
    return allowed or ""


def _listed_files(folder: Path, most: FileLimits) -> tuple[dict[str, str], int]:
    """Return the digest of each file by its path, and the total size. If that exceeds the limits, nothing is read.

    Raises `SkillError`, also for a link to a place outside of the folder.
    """
    shown = safe_line(str(folder), 200)
    try:
        paths = sorted(islice(_paths(folder), most.files + 1))
        files = [path for path in paths if not path.endswith("/")]
        size = sum(os.lstat(folder / path).st_size for path in files)
    except OSError as error:
        raise SkillError(
            f"{shown}: cannot be listed: {error.strerror or type(error).__name__}"
        ) from None
    if len(paths) > most.files:
        raise SkillError(
            f"{shown}: has more than {most.files:,} files and folders; leave some out"
        )
    odd = [path for path in paths if with_codes(path, "") != path]
    if odd:
        name = with_codes(odd[0], "")[:100]
        raise SkillError(f"{shown}: the file name '{name}' cannot be shown; rename it")
    if size > most.bytes:
        raise SkillError(
            f"{shown}: its files have more than {most.bytes / 1_000_000:.1f} MB; leave some out"
        )
    digests: dict[str, str] = {}
    for path in files:
        content = _content(folder, path)
        digests[path] = hashlib.sha256(content).hexdigest()
    return digests, size


def _paths(folder: Path) -> Iterator[str]:
    """Yield the path of each file, and of each folder with a final slash.

    A link to a folder counts as a file, which cannot be read.
    """
    left = [""]
    while left:
        within = left.pop()
        with os.scandir(folder / within) as entries:
            for entry in entries:
                path = within + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path
                elif entry.name not in _LEFT_OUT:
                    left.append(f"{path}/")
                    yield f"{path}/"


def _content(folder: Path, path: str) -> bytes:
    """Return the content of a file; its real path must be inside of the folder. Raises `SkillError`."""
    shown = safe_line(str(folder / path), 200)
    real = os.path.realpath(folder / path)
    if not Path(real).is_relative_to(os.path.realpath(folder)):
        raise SkillError(
            f"{shown}: leads out of the skill's folder; copy the file there"
        )
    try:
        return read_bounded(real, MAX_BYTES)
    except OSError as error:
        raise SkillError(
            f"{shown}: cannot be read: {error.strerror or type(error).__name__}"
        ) from None
