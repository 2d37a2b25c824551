"""One certificate to trust instead of some hundred: reading those takes 40 ms for each client that is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp.transports.test_remote_faults import self_signed


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("certificates") / "one.pem")


@pytest.fixture(autouse=True)
def few_certificates(one_certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is on loopback and without TLS."""
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
