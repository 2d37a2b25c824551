"""The reading order holds: a module imports only what stands before it, and starting up loads nothing heavy."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mcpagent"

STAGES: tuple[frozenset[str], ...] = tuple(
    frozenset(stage.split())
    for stage in (
        "errors messages pending events safe_text whole_files known_secrets secret_shapes background inputs late_names",
        "tools tool_algebra tool_context run_context names conversation tracing config secret_store selection cards "
        "search prompt models validation",
        "catalog mcp recording offload compaction sessions",
        "virtual_tools toolsets",
        "sources execution loop session conversations agent agent_cards",
        "cli server",
    )
)
"""The rooms in reading order, as docs/architecture.md has them; rooms of one stage may import each other."""

APART = frozenset({"demo", "__main__", "__init__"})
"""`demo` is a program of its own, started as a server; the two others are doors."""

HEAVY = tuple(
    "anthropic openai genai_prices mcp mcp_types httpx2 httpx pydantic jsonschema referencing rich prompt_toolkit "  # noqa: SIM905
    "numpy rapidfuzz tokenizers keyring".split()
)


def room_of(module: str) -> str:
    return module.removeprefix("mcpagent.").split(".")[0]


MODULES: dict[str, Path] = {
    ".".join(("mcpagent", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imported(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """The names of the modules that a file imports; `only_at_import` leaves out functions and TYPE_CHECKING."""
    pending: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            submodules = [name for alias in node.names if (name := f"{node.module}.{alias.name}") in MODULES]
            yield from submodules
            if len(submodules) < len(node.names):
                yield node.module or ""
        if only_at_import and _is_lazy(node):
            continue
        pending.extend(ast.iter_child_nodes(node))


def _is_lazy(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return True
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def stage(room: str) -> int:
    return next(number for number, rooms in enumerate(STAGES) if room in rooms)


def test_every_room_has_its_place() -> None:
    rooms = {room_of(name) for name in MODULES} - {"mcpagent"} - APART
    assert rooms <= frozenset().union(*STAGES), "name the new room in STAGES here and in docs/architecture.md"


def test_the_page_on_architecture_has_every_room_in_this_order() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    table = "\n".join(line.split("|")[2] for line in page.splitlines() if line.startswith("|"))
    shown = [name for name in re.findall(r"`(\w+)(?:\.py|/)`", table) if name not in APART]
    assert set(shown) == {room_of(name) for name in MODULES} - {"mcpagent"} - APART
    assert [stage(room) for room in shown] == sorted(stage(room) for room in shown)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_only_rooms_that_stand_before_it(module: str) -> None:
    room = room_of(module)
    if room in APART or module == "mcpagent":
        return
    wrong = {
        name
        for name in imported(MODULES[module])
        if name.startswith("mcpagent.") and (room_of(name) in APART - {"demo"} or _is_later(room_of(name), room))
    }
    assert not wrong, f"{module} stands before {', '.join(sorted(wrong))}"


def _is_later(imported_room: str, room: str) -> bool:
    if imported_room == "demo":
        return stage(room) < stage("agent")
    known = frozenset().union(*STAGES)
    return imported_room in known and stage(imported_room) > stage(room)


def test_the_demo_server_needs_nothing_of_the_runtime() -> None:
    outside = {
        name
        for module, path in MODULES.items()
        if room_of(module) == "demo"
        for name in imported(path)
        if name.startswith("mcpagent.") and room_of(name) != "demo"
    }
    assert not outside


def test_there_are_no_import_cycles() -> None:
    """Counts what runs at import time; a lazy import at a seam is no cycle."""
    edges = {
        module: sorted({name for name in imported(path, only_at_import=True) if name in MODULES} - {"mcpagent"})
        for module, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above[above.index(module) :], module))
        if module not in done:
            for name in edges[module]:
                visit(name, (*above, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


LOADED = "import json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, timeout=60, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import mcpagent",
        "from mcpagent import Agent",
        "from mcpagent import Agent; Agent('offline')",
        "from mcpagent import *",
    ],
)
def test_importing_loads_no_heavy_package(code: str) -> None:
    assert not loaded_by(code) & set(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["tools", "search", "--help"]])
def test_help_loads_no_heavy_package(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['mcpagent', *{arguments!r}]\n"
        "from mcpagent.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
    )
    assert not loaded_by(code) & set(HEAVY)
