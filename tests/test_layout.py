"""Tests mirror the package: those of `mcpagent/search/pattern.py` are in `tests/search/test_pattern.py`.

`test_pattern_<aspect>.py` is about one aspect of the same module. A folder of the package counts as a module.
"""

from __future__ import annotations

from pathlib import Path

from tests.package import PACKAGE

TESTS = Path(__file__).parent

OF_NO_MODULE = {
    "attack": "hostile inputs, kills and fuzz through all modules: a lane of its own",
    "examples": "the examples of README.md, docs/ and examples/",
    "mcp/test_conformance.py": "the conformance suites of the MCP project",
    "test_docstrings.py": "all of the package",
    "test_imports.py": "all of the package",
    "test_layout.py": "the tests",
    "test_prose.py": "docstrings, comments and pages",
    "test_public_names.py": "all of the package",
    "test_public_surface.py": "the classes that users meet",
    "test_security_page.py": "the promises of SECURITY.md",
    "test_tables.py": "the tests' own tables",
    "test_typing.py": "all of the package",
    "permissions/trust/test_bad_inputs.py": "the bad inputs of the reliability design, through all modules",
}
"""Folders and files that mirror nothing, and what they are about instead."""


def test_a_file_of_tests_is_named_after_the_module_or_folder_that_it_is_about() -> None:
    files = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]
    lost = [file.as_posix() for file in files if not _is_named_after_one(file)]
    assert lost == [], "name each after its module, or say in OF_NO_MODULE what it is about"


def _is_named_after_one(file: Path) -> bool:
    if file.parts[0] in OF_NO_MODULE or file.as_posix() in OF_NO_MODULE:
        return True
    words = file.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    place = PACKAGE / file.parent
    return any((place / f"{name}.py").is_file() or (place / name / "__init__.py").is_file() for name in names)


def test_a_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    assert [folder.name for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_what_mirrors_nothing_is_there() -> None:
    assert [name for name in OF_NO_MODULE if not (TESTS / name).exists()] == []
