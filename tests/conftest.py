"""What holds for all tests: one event loop, no secrets of other tests, modules compiled once, patient properties."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mcpagent.utilities.text import secrets
from tests import tables
from tests.terminal.small_model import small_model
from tests.terminal.warm import close_starter

ROOT = Path(__file__).resolve().parents[1]

# How long an example takes says more about the machine than about us; every test has a time limit of its own. The same
# examples at each run, so that a test that passed here passes there: `--hypothesis-profile=explore` looks for others,
# and `--hypothesis-seed=N` tries those of that seed, the same ones at each run.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any-machine", settings.get_profile("explore"), derandomize=True, max_examples=50)
settings.register_profile("seeded", settings.get_profile("explore"), database=None)
settings.load_profile("any-machine")

# A helper that asserts explains its failure as a test does.
pytest.register_assert_rewrite("tests.servers.leftovers")

# The command line is started some hundred times: without bytecode each start compiles all of its modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--first-rows", action="store_true", help="run each table of cases with its first row: a quick look"
    )
    parser.addoption(
        "--seeds", choices=("quarter", "all"), default="quarter", help="how many of the kills and random inputs to try"
    )


def pytest_configure(config: pytest.Config) -> None:
    tables.FIRST_ROWS_ONLY = config.getoption("--first-rows")
    # Hypothesis ignores a seed while examples are derandomised.
    is_seeded = config.getoption("--hypothesis-seed", default=None) is not None
    if is_seeded and not config.getoption("--hypothesis-profile", default=None):
        settings.load_profile("seeded")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let each worker begin with another part of the modules.

    In a fresh clone a module is compiled when it is first imported. Workers that import the modules in the same order
    all compile each of them; those that are at different places find what the others have compiled.
    """
    gc.disable()  # what is loaded stays: the collector would look at all of it again and again
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is not None and session.config.args == session.config.getini("testpaths"):
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        for file in files[first:] + files[:first]:
            # what cannot be imported is reported when pytest collects it
            with suppress(Exception, pytest.skip.Exception):
                import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --first-rows, drop all but the first case of each parametrised test."""
    if not config.getoption("--first-rows"):
        return
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    kept = list(first.values())
    dropped = [item for item in items if item not in set(kept)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function):
        tables.refuse_shared_folders(item)


@pytest.fixture(scope="session")
def share_of_seeds(pytestconfig: pytest.Config) -> float:
    """What part of the kills and random inputs of `tests/attack` is tried: 0.25, or 1 with `--seeds all`."""
    return 1.0 if pytestconfig.getoption("--seeds") == "all" else 0.25


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def nobody_elses_secrets() -> Iterator[None]:
    """What one test had hidden (`secrets.hide`, for the life of the process) is no secret of the next one's."""
    before = secrets._values
    yield
    secrets._values = before


@pytest.fixture(scope="session", autouse=True)
def commands_start_from_a_process_that_ends() -> Iterator[None]:
    """The process that starts commands with their modules loaded ends with the tests."""
    yield
    close_starter()


@pytest.fixture(scope="module", autouse=True)
def nothing_old_is_looked_at_again() -> Iterator[None]:
    """Keeps the collector off what is loaded by now: it took half a second of whatever a test measured.

    What a module left open is told at its end: else some test of another module would fail for it.
    `gc.get_freeze_count` walks through every frozen object, some 30 ms here, and the package calls it whenever an index
    changes, only to learn whether there are any.
    """
    gc.freeze()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gc, "get_freeze_count", lambda: 1)
        yield
    gc.collect()


@pytest.fixture
def changing_model() -> Iterator[str]:
    """The name for `-m` of a model that calls tools which change things, as the offline stand-in does not."""
    with small_model() as name:
        yield name
