"""What holds for all tests: one event loop, and property tests that bear a busy machine."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about us; every test has a time limit of its own.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
