"""Folders of skills for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCRIPT = "import sys\nprint('filled', sys.argv[1:])\n"


def written(
    root: Path,
    name: str,
    *,
    description: str = "Fill in the fields of PDF forms. Use when a form has to be completed.",
    body: str = "Read references/fields.md first.",
    files: Mapping[str, str] | None = None,
    more: str = "",
) -> Path:
    """Write a skill into a folder of skills and return its folder."""
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n")
    for path, text in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def pdf_forms(root: Path) -> Path:
    """Write the skill that most tests use, with a reference and a script."""
    return written(root, "pdf-forms", files={"references/fields.md": "the fields\n", "scripts/fill.py": SCRIPT})
