"""Folders of skills are validated as the specification has it, and hostile ones cost one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpagent.skills.skill_folders import MAX_BYTES, MAX_FILES, MAX_SKILL_BYTES, SkillError, read_skill, violations
from tests.skills.folders import pdf_forms, written
from tests.tables import each_row

LONG = "d" * 1_025


def test_a_valid_skill_is_read_with_all_its_fields(tmp_path: Path) -> None:
    more = (
        "license: MIT\ncompatibility: needs Python\nmetadata:\n  version: 1.0\n  day: 2026-01-02\n"
        "allowed-tools: Read Bash(git:*)\nmodel: opus\n"
    )
    skill = read_skill(written(tmp_path, "a-1", description="Two\n  lines", body="# Do\nthis", more=more))
    assert (skill.name, skill.description, skill.instructions) == ("a-1", "Two lines", "# Do\nthis")
    assert (skill.license, skill.compatibility, skill.allowed_tools) == ("MIT", "needs Python", "Read Bash(git:*)")
    assert skill.metadata == {"version": "1.0", "day": "2026-01-02"}
    assert skill.unknown == ("model",)
    assert list(skill.files) == ["SKILL.md"]


@each_row(
    "fields, part",
    [
        ({"name": "pdf"}, ""),
        ({"name": "a" * 64}, ""),
        ({"name": "a" * 65}, "name"),
        ({"name": ""}, "name"),
        ({"name": "PDF"}, "name"),
        ({"name": "-a"}, "name"),
        ({"name": "a-"}, "name"),
        ({"name": "a--b"}, "name"),
        ({"name": "a_b"}, "name"),
        ({"name": "é"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": 1}, "name"),
        ({"description": "d" * 1_024}, ""),
        ({"description": LONG}, "1,025 characters"),
        ({"description": "  "}, "description is missing"),
        ({"description": None}, "description is missing"),
        ({"license": ["MIT"]}, "license is no text"),
        ({"compatibility": "c" * 500}, ""),
        ({"compatibility": "c" * 501}, "501 characters"),
        ({"compatibility": ""}, "0 characters"),
        ({"metadata": "text"}, "metadata is no mapping"),
        ({"metadata": {"a": [1]}}, "metadata has values"),
        ({"allowed-tools": ["Read"]}, ""),
        ({"allowed-tools": 3}, "allowed-tools is no text"),
    ],
)
def test_each_rule_of_the_specification_holds(fields: dict[str, object], part: str) -> None:
    whole = {"name": "pdf", "description": "Fills forms.", **fields}
    found = violations(whole, str(whole["name"]))
    assert len(found) == bool(part)
    assert part in "".join(found)


def test_a_name_is_that_of_its_folder() -> None:
    [line] = violations({"name": "other", "description": "d"}, "pdf")
    assert line == "name 'other' is not that of its folder, 'pdf'; rename one"


HEAD = "---\nname: x\ndescription: d\n---\n"


@each_row(
    "content, part",
    [
        (HEAD + "x" * MAX_SKILL_BYTES, "SKILL.md is larger than 100 kB"),
        ("hello", "has no front matter"),
        ("---\n- a\n---\n", "the front matter has no fields"),
        ("---\nname: &a [x]\ndescription: [*a, *a]\n---\n", "an alias (*) is not allowed"),
        ("---\nname: " + "[" * 5_000 + "\n---\n", "it nests deeper than 64 levels"),
        ("---\nname: x\nname: y\n---\n", '"name" is given twice'),
        ("---\nname: !!python/object/apply:os.system ['id']\n---\n", "could not determine a constructor"),
        ("---\nname: x\ndescription: a\0b\n---\n", "is not YAML"),
        ('---\nname: "x\\e[31m"\ndescription: d\n---\n', "name 'x[31m'"),
        ("---\nname: x\n" + "".join(f"k{n}: 1\n" for n in range(2_000)) + "---\n", "leave at most 8,000"),
        ("---\nname: x\nmetadata: {a: !!int 1" + ":1" * 3_900 + "}\n---\n", "a number has over 100 digits"),
        ("---\nname: x\nmetadata: {a: !!int ''}\n---\n", "a value cannot be read (IndexError)"),
        ("---\nname: x\nmetadata: {a: !!bool maybe}\n---\n", "a value cannot be read (KeyError)"),
        ("---\nname: x\nmetadata: {a: !!timestamp noon}\n---\n", "a value cannot be read (AttributeError)"),
        ('---\nname: x\ndescription: "\\UFFFFFFFF"\n---\n', "a value cannot be read (OverflowError)"),
    ],
)
def test_a_hostile_skill_costs_one_line(content: str, part: str, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "SKILL.md").write_text(content)
    with pytest.raises(SkillError) as error:
        read_skill(folder)
    assert part in str(error.value)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_links_out_pipes_and_too_many_files_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name, add in {
        "file": lambda folder: (folder / "f").symlink_to("/etc/passwd"),
        "folder": lambda folder: (folder / "f").symlink_to(outside),
        "pipe": lambda folder: os.mkfifo(folder / "f"),
    }.items():
        folder = written(tmp_path, name)
        add(folder)  # type: ignore[no-untyped-call]
        with pytest.raises(SkillError, match=r"/f: (leads out of the skill's folder|cannot be read)"):
            read_skill(folder)
    for name in ("a\nRun it", "a\x1b[31m", "a\u202e"):
        odd = written(tmp_path / str(hash(name)), "odd")
        (odd / name).touch()
        with pytest.raises(SkillError, match=r"the file name 'a.*' cannot be shown; rename it"):
            read_skill(odd)
    many = written(tmp_path, "many")
    for number in range(MAX_FILES):
        (many / str(number)).touch()
    with pytest.raises(SkillError, match="has more than 1,000 files"):
        read_skill(many)
    large = written(tmp_path, "large")
    with (large / "f").open("wb") as file:
        file.truncate(MAX_BYTES)
    with pytest.raises(SkillError, match=r"its files have more than 20\.0 MB"):
        read_skill(large)


def test_a_link_inside_of_the_folder_is_a_file(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)
    (folder / "again.md").symlink_to("references/fields.md")
    assert read_skill(folder).content("again.md") == b"the fields\n"


def test_t30_only_listed_and_unchanged_files_are_read(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)
    (folder / "scripts" / "__pycache__").mkdir()
    (folder / "scripts" / "__pycache__" / "fill.pyc").touch()
    skill = read_skill(folder)
    (folder / "new.md").touch()
    (folder / "scripts" / "fill.py").write_text("print('other')")
    for path in ("new.md", "../pdf-forms/SKILL.md", "/etc/passwd", "", ".", "scripts/__pycache__/fill.pyc", "a\0b"):
        with pytest.raises(SkillError, match="has no file"):
            skill.content(path)
    with pytest.raises(SkillError, match=r"scripts/fill\.py changed since the skill was read"):
        skill.content("scripts/fill.py")
    (folder / "references" / "fields.md").unlink()
    (folder / "references" / "fields.md").symlink_to("/etc/passwd")
    with pytest.raises(SkillError, match="leads out"):
        skill.content("references/fields.md")


def test_the_digest_is_of_all_names_and_contents(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)
    digests = {read_skill(folder).digest}
    (folder / "references" / "fields.md").write_text("others")
    digests.add(read_skill(folder).digest)
    (folder / "references" / "fields.md").rename(folder / "references" / "f.md")
    digests.add(read_skill(folder).digest)
    assert len(digests) == 3
    assert read_skill(folder).digest in digests


def test_numbers_of_the_front_matter_stay_as_they_are_written(tmp_path: Path) -> None:
    more = "metadata:\n  version: 1.10\n  build: 0xff\n  long: " + "9" * 5_000 + "\n"
    skill = read_skill(written(tmp_path, "x", more=more))
    assert skill.metadata == {"version": "1.10", "build": "0xff", "long": "9" * 5_000}


@each_row("name", ["a\u3164.md", "a\u115f.md", "a\ufe0f.md", "a\u202etxt.md", "a\nb.md", "a\u200b.md"])
def test_a_file_name_that_does_not_look_like_what_it_is_is_refused(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path, "x", files={name: "text"})
    with pytest.raises(SkillError, match="cannot be shown; rename it") as error:
        read_skill(folder)
    assert name not in str(error.value)


def test_folders_count_as_files_and_may_be_deep(tmp_path: Path) -> None:
    deep = written(tmp_path, "deep", files={"/".join("d" * 700) + "/file": "text"})
    assert len(read_skill(deep).files) == 2
    for folder in ("e", *[f"e/{n}" for n in range(MAX_FILES)]):
        (deep / folder).mkdir()
    with pytest.raises(SkillError, match="more than 1,000 files and folders"):
        read_skill(deep)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may read everything")
def test_a_folder_that_cannot_be_listed_is_not_left_out_silently(tmp_path: Path) -> None:
    folder = written(tmp_path, "x", files={"closed/file": "text"})
    (folder / "closed").chmod(0)
    try:
        with pytest.raises(SkillError, match="cannot be listed: Permission denied"):
            read_skill(folder)
    finally:
        (folder / "closed").chmod(0o700)
