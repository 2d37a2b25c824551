"""An agent inside of notebooks, other event loops, threads and other test plugins: each runs a whole session."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

from tests.agents.embedding_program import EXPECTED, session

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("uvloop", "ipykernel", "nbclient", "pytest-asyncio")
RUN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.agents.embedding_program import EXPECTED, agent, session
"""


def test_two_event_loops_in_two_threads() -> None:
    said: list[list[str]] = []
    threads = [threading.Thread(target=lambda: said.append(asyncio.run(session()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert said == [EXPECTED, EXPECTED]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the packages of this one, and those that this file needs; skip without a package index."""
    folder = tmp_path_factory.mktemp("embedded")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin" / "python"
    ours = sysconfig.get_path("purelib")
    theirs = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    ).stdout.strip()
    install = [str(python), "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", *PACKAGES]
    done = subprocess.run(install, check=False, timeout=400, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    Path(theirs, "zz_ours.pth").write_text(f"{ours}\n", "utf-8")
    return python


def ran(python: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run([python, *arguments], cwd=folder, check=False, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


pytestmark = [
    pytest.mark.heavy,  # each installs a large program of another project
    pytest.mark.skipif(sys.platform == "win32", reason="uvloop has no Windows, and the paths are POSIX"),
]


@pytest.mark.slow
def test_uvloop(python: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"{RUN}\nimport uvloop\nassert uvloop.run(session()) == EXPECTED\nprint('fine')\n", "utf-8")
    assert ran(python, tmp_path, "-W", "error", str(program)) == "fine\n"


@pytest.mark.slow
def test_pytest_asyncio(python: Path, tmp_path: Path) -> None:
    tests = (
        f"{RUN}\nimport pytest\n\n@pytest.mark.asyncio\nasync def test_it():\n    assert await session() == EXPECTED\n"
    )
    (tmp_path / "test_it.py").write_text(tests, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n", "utf-8")
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_it.py")
    assert "1 passed" in ran(python, tmp_path, *arguments)


CELLS = (
    f"{RUN}one = agent()",
    "await one.__aenter__()\nprint(await one.ask('What is the weather in Rome?'))",
    "try:\n    one.ask_sync('again')\nexcept Exception as error:\n    print(type(error).__name__, error)",
    "print(await one.ask('Thank you.'))\nawait one.aclose()",
    "print(await session() == EXPECTED)",
)
NOTEBOOK = """
import json, sys
import nbclient, nbformat
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in json.load(open("cells.json"))])
nbclient.NotebookClient(notebook, timeout=90, kernel_name="python3").execute()
texts = [[output.get("text", "") for output in cell.outputs] for cell in notebook.cells]
print(json.dumps(["".join(text) for text in texts]))
"""


@pytest.mark.slow
def test_a_notebook(python: Path, tmp_path: Path) -> None:
    (tmp_path / "cells.json").write_text(json.dumps(CELLS), "utf-8")
    program = tmp_path / "program.py"
    program.write_text(NOTEBOOK, "utf-8")
    *_, first, synchronous, second, whole = json.loads(ran(python, tmp_path, str(program)).splitlines()[-1])
    assert first == "It is sunny.\n"
    assert "await" in synchronous
    assert len(synchronous.splitlines()) == 1
    assert second == "You are welcome.\n"
    assert whole == "True\n"
