"""The process that starts commands with their modules loaded ends with the tests."""

from collections.abc import Iterator

import pytest

from tests.terminal.warm import close_starter


@pytest.fixture(scope="session", autouse=True)
def commands_start_from_a_process_that_ends() -> Iterator[None]:
    yield
    close_starter()
