"""Skills are found in a project's folders and the user's own; what fails costs only itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagent.skills.finding_skills import (
    MAX_ALL_BYTES,
    describe_skill,
    find_skills,
    first_of_each_name,
    own_skills_folder,
    skill_places,
)
from mcpagent.skills.skill_folders import MAX_BYTES, read_skill
from tests.skills.folders import pdf_forms, written


def test_the_nearest_folder_of_a_project_comes_first_and_the_users_own_last(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".git").mkdir(parents=True)
    inner = project / "inner"
    inner.mkdir()
    for root in (inner / ".claude", project / ".agents", home / ".mcpagent"):
        written(root / "skills", "pdf", description=f"That of {root.name}")
    found = find_skills(skill_places(inner, {"HOME": str(home)}))
    assert [(skill.description, skill.scope) for skill in found.skills] == [
        ("That of .claude", "project"),
        ("That of .agents", "project"),
        ("That of .mcpagent", "user"),
    ]
    named = first_of_each_name(found.skills)
    assert named.skills == found.skills[:1]
    assert len(named.problems) == 2
    assert all("has the name of" in line and "\n" not in line for line in named.problems)


def test_mcpagent_home_has_the_users_skills(tmp_path: Path) -> None:
    assert own_skills_folder({"MCPAGENT_HOME": str(tmp_path), "HOME": "/x"}) == tmp_path / "skills"


def test_a_skill_that_others_may_have_written_is_not_the_users_own(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    pdf_forms(root)
    for path in (root, root / "pdf-forms", root / "pdf-forms" / "SKILL.md"):
        mode = path.stat().st_mode
        scopes = []
        for added in (0, 0o002):
            path.chmod(mode | added)
            scopes += [skill.scope for skill in find_skills([(root, "user")]).skills]
        path.chmod(mode)
        assert scopes == ["user", "project"], path


def test_a_folder_that_two_names_lead_to_is_read_once(tmp_path: Path) -> None:
    pdf_forms(tmp_path / ".agents" / "skills")
    (tmp_path / ".claude").symlink_to(tmp_path / ".agents")
    found = find_skills(skill_places(tmp_path, {"HOME": str(tmp_path / "none")}))
    assert [skill.name for skill in found.skills] == ["pdf-forms"]
    assert found.problems == ()


def test_a_bad_skill_costs_only_itself(tmp_path: Path) -> None:
    pdf_forms(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    written(tmp_path, "UPPER")
    found = find_skills([(tmp_path, "given"), (tmp_path / "missing", "given")])
    assert [skill.name for skill in found.skills] == ["pdf-forms"]
    [line] = found.problems
    assert line.startswith(f"skill left out: {tmp_path / 'UPPER'}: name 'UPPER'")


@pytest.mark.slow
def test_all_skills_together_have_a_limit(tmp_path: Path) -> None:
    for number in range(12):
        folder = written(tmp_path, f"s{number:02}")
        with (folder / "f").open("wb") as file:
            file.truncate(MAX_BYTES - 1_000)
    found = find_skills([(tmp_path, "project")])
    assert len(found.skills) == MAX_ALL_BYTES // MAX_BYTES
    assert len(found.problems) == 12 - len(found.skills)
    assert all("its files have more than" in line for line in found.problems)


def test_consent_is_bound_to_the_content(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)
    before = describe_skill(read_skill(folder))
    (folder / "scripts" / "fill.py").write_text("print('other')")
    after = describe_skill(read_skill(folder))
    assert before.digest() != after.digest()
    assert (before.place, before.name, before.kind) == (after.place, after.name, "skill")
    assert {fact.what: fact.text for fact in after.facts}["has scripts, each run asked about"] == "scripts/fill.py"
