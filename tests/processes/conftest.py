"""Certificates for the tests of TLS."""

from tests.unit.conftest import pems

__all__ = ["pems"]
