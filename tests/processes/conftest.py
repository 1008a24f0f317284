"""Certificates for the tests of TLS."""

from tests.unit.gateway.conftest import pems

__all__ = ["pems"]
