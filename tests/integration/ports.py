"""Ports that a page names: anybody's."""

from __future__ import annotations

import socket

import pytest

from sharegroup.testkit.embedded_kafka import HOST


def need_free_ports(*ports: int) -> None:
    """Where someone has one of them, the page's lines cannot be run: the test is skipped."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                pytest.skip(f"port {port} is taken")
