"""Fixtures for all tests of this folder."""

from tests.wire.certificates import no_certificates

__all__ = ["no_certificates"]
