"""The tree: a total reading order without circles, names that stand once, folders of bounded size, few places that
listen or open databases, a light start."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.package import MODULES, PACKAGE, nodes, tree

ORDER = (
    "errors",
    "utilities",
    "prompt",
    "values",
    "history",
    "config",
    "permissions",
    "search",
    "offline",
    "models",
    "tool_search",
    "run",
    "code_mode",
    "openapi",
    "skills",
    "mcp",
    "toolsets",
    "journal",
    "agents",
    "documents",
    "gateway",
    "cli/common",
    "cli/screen",
    "cli/approvals",
    "cli/oneshot",
    "cli/tools_command",
    "cli/servers",
    "cli/chat",
    "cli/sessions_command",
    "cli/runs_command",
    "cli/gateway_command",
    "cli/documents_command",
    "cli/setup",
    "cli",
)
"""The rooms in reading order, as docs/architecture.md has them: each knows only those before it."""

APART = frozenset({"demo", "__main__", "__init__"})
"""`demo` is a program of its own, started as a server; the two others are doors."""

MOST_AT_ROOT, MOST_IN_FOLDER = 3, 20

HEAVY = tuple(
    "anthropic openai genai_prices mcp mcp_types httpx2 httpx pydantic jsonschema referencing rich prompt_toolkit "  # noqa: SIM905
    "numpy rapidfuzz tokenizers keyring opentelemetry".split()
)


def room_of(module: str) -> str:
    """The root module or folder; the folders of `cli` are rooms of their own."""
    steps = module.removeprefix("mcpagent.").split(".")
    return "/".join(steps[:2]) if steps[0] == "cli" and len(steps) > 2 else steps[0]


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The names of the modules that a file imports, wherever in it."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            submodules = [name for alias in node.names if (name := f"{node.module}.{alias.name}") in MODULES]
            yield from submodules
            if len(submodules) < len(node.names):
                yield node.module or ""


def test_every_room_has_its_place() -> None:
    rooms = {room_of(name) for name in MODULES} - {"mcpagent"} - APART
    assert sorted(ORDER) == sorted(rooms), "put the room into ORDER here and into docs/architecture.md"


def test_the_page_on_architecture_has_every_room_in_this_order() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")
    table = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    shown = [name for name in re.findall(r"`((?:cli/)?\w+)(?:\.py|/)`", table) if name not in APART]
    assert shown == list(ORDER)


def test_a_module_imports_only_rooms_that_stand_before_it() -> None:
    """Imports inside functions and for types alone count as all others do."""
    wrong = [
        f"{module} stands before {name}"
        for module, path in MODULES.items()
        if (room := room_of(module)) not in APART and module != "mcpagent"
        for name in dict.fromkeys(imported(path))
        if (name == "mcpagent" or name.startswith("mcpagent.")) and not _may_be_known(room, room_of(name))
    ]
    assert wrong == []


def _may_be_known(room: str, other: str) -> bool:
    if other in APART or other == "mcpagent":
        return room.startswith("cli")
    return ORDER.index(other) <= ORDER.index(room)


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
    """Between files, whenever they are imported: a circle through a function is one too."""
    edges = {
        module: sorted({name for name in imported(path) if name in MODULES} - {"mcpagent"})
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


def classes(path: Path) -> Iterator[ast.ClassDef]:
    """Those of a module, also the ones inside functions and classes."""
    return (node for node in nodes(path) if isinstance(node, ast.ClassDef))


def test_a_name_stands_once() -> None:
    """Of all modules and folders together, and of all classes."""
    doors = {"__init__", "__main__"}
    places = Counter(path.parent.name if path.stem == "__init__" else path.stem for path in MODULES.values())
    assert [name for name, count in places.items() if count > 1 and name not in doors] == []
    named = Counter(node.name for path in MODULES.values() for node in classes(path))
    assert [name for name, count in named.items() if count > 1] == []


SAID_TWICE = {
    "main",  # of programs: the command, and what starts a server
}


def test_a_function_has_a_name_of_its_own() -> None:
    """But for what each provider's adapter does in its own way, and programs."""
    paths = [path for path in MODULES.values() if path.parent.name not in ("anthropic", "openai")]
    named = Counter(
        node.name
        for path in paths
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    )
    assert {name for name, count in named.items() if count > 1} <= SAID_TWICE


MOST_BY_PLACE = 6
"""Arguments of one call that are told apart by their place alone; further ones are named."""


def test_long_calls_name_their_arguments() -> None:
    long = [
        f"{path}:{node.lineno}: {ast.unparse(node.func)}"
        for path in MODULES.values()
        for node in nodes(path)
        if isinstance(node, ast.Call) and len(node.args) > MOST_BY_PLACE
    ]
    assert long == []


def test_folders_are_small() -> None:
    files = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py" or path.parent == PACKAGE)
    assert files.pop(PACKAGE) <= MOST_AT_ROOT
    assert {folder.name: count for folder, count in files.items() if count > MOST_IN_FOLDER} == {}


LISTENS = {"start_server", "start_unix_server", "create_server", "create_unix_server", "bind", "HTTPServer"}
SERVES = {"http.server", "socketserver", "uvicorn", "starlette", "fastapi", "aiohttp", "flask", "xmlrpc"}


GATEWAY = "gateway/http_gateway.py"
"""It listens if its user asks for that; `tests/gateway/test_http_gateway.py` has its threats."""


def test_t11_nothing_of_ours_listens_but_the_page_of_a_sign_in_and_the_gateway() -> None:
    """Threats of an HTTP server have to be looked at again by whoever adds one."""
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}: {name}"
        for path in MODULES.values()
        if path.relative_to(PACKAGE).as_posix() != GATEWAY
        for node in nodes(path)
        for name in _serving(node)
    }
    assert found == {"mcp/auth/oauth.py: start_server('127.0.0.1')"}


def _serving(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LISTENS:
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == "definition":  # `Definition.bind`, which binds tools
            return
        if isinstance(owner, ast.Attribute) and owner.attr == "definition":
            return
        if ast.unparse(owner).startswith("signature("):  # binds arguments
            return
        yield f"{node.func.attr}({', '.join(ast.unparse(item) for item in node.args[1:2])})"
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    yield from (module for module in modules if module in SERVES or module.split(".")[0] in SERVES)


def test_databases_are_opened_in_these_places() -> None:
    """A database that is locked, full or no database has to be looked at by whoever adds one."""
    opens = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES.values()
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sqlite3.connect"
    }
    assert opens == {
        "agents/durable/database.py",
        "documents/stores/sqlite_file.py",
        "search/learning.py",
        "search/semantic/vector_cache.py",
        "journal/sessions/sqlite.py",
        "run/large_results/sql_worker.py",
    }


LOADED = "import json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"


def loaded_by(code: str) -> set[str]:
    """The modules that a process has after this code; a tracer of lines would load others."""
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-c", f"{code}\n{LOADED}"]
    done = subprocess.run(command, env=untraced, capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_loads_no_heavy_package() -> None:
    """One process for all of it: what is not loaded at its end was loaded by no line of it."""
    wrapped = "Agent('offline', options=RunOptions(wrappers=[Tracing()]))"
    code = f"import mcpagent\nfrom mcpagent import *\nAgent('offline')\n{wrapped}\n"
    assert not loaded_by(code) & set(HEAVY)


def test_importing_agent_does_not_load_the_engine() -> None:
    """A program pays for the engine when it makes its first agent: `asyncio` alone costs five bare starts."""
    own = "print(json.dumps([name for name in sys.modules if name.startswith('mcpagent.agents.')]))"
    code = f"import json, sys\nfrom mcpagent import Agent\n{own}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(json.loads(done.stdout)) == {
        f"mcpagent.agents.{name}" for name in ("agent", "other_libraries", "runnable")
    }
    assert not loaded_by("from mcpagent import Agent") & {"asyncio", "ssl", "logging", "sqlite3", *HEAVY}
    assert "asyncio" in loaded_by("from mcpagent import Agent\nAgent('offline')")


def test_help_loads_no_heavy_package() -> None:
    """typer loads pydantic for a command's page, and nothing does for the page of the top level."""
    code = (
        "import sys\n"
        "from mcpagent.cli import main\n"
        "for words in ['--help'], ['--version'], ['tools', 'search', '--help']:\n"
        "    assert 'pydantic' not in sys.modules\n"
        "    sys.argv = ['mcpagent', *words]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, end.code\n"
    )
    assert not loaded_by(code) & (set(HEAVY) - {"pydantic"})
