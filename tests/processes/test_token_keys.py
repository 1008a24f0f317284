"""Servers of token keys whose response never ends or is too large."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from sharegroup.errors import InvalidConfigError
from sharegroup.security.authentication.token_keys import MAX_BYTES, fetch_keys

HEAD = b"HTTP/1.1 200 OK\r\n"
#: The start of a TLS record of 16 KB.
HANDSHAKE = b"\x16\x03\x03\x40\x00"


class DrippingServer:
    """A server that sends some bytes to its client, and then single bytes until the connection is closed."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._ended = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self._listening, contextlib.suppress(OSError):
            connected, _ = self._listening.accept()
            with connected:
                connected.recv(4_096)
                connected.sendall(self._begin)
                while not self._ended.wait(0.02):
                    connected.sendall(b" ")

    def close(self) -> None:
        self._ended.set()
        self.thread.join()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[DrippingServer]:
    found = DrippingServer(request.param)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("server", "scheme"),
    [
        (HEAD + b"X-Header: ", "http"),
        (HEAD + b"Content-Length: 100000\r\n\r\n", "http"),
        (HEAD + b"\r\n", "http"),
        (HANDSHAKE, "https"),
    ],
    indirect=["server"],
    ids=["header", "body", "body without an end", "handshake"],
)
def test_response_in_single_bytes_is_given_up(server: DrippingServer, scheme: str) -> None:
    """Each byte arrives within the timeout of a read. The connection is closed, which the server notices."""
    with pytest.raises(InvalidConfigError, match=r"no complete response within 0\.3 s"):
        fetch_keys(f"{scheme}://127.0.0.1:{server.port}/keys", timeout_s=0.3)
    server.thread.join()


@pytest.mark.parametrize("server", [HEAD + b"\r\n" + bytes(MAX_BYTES + 1)], indirect=True, ids=["large"])
def test_response_that_is_too_large_is_rejected_by_its_size(server: DrippingServer) -> None:
    with pytest.raises(InvalidConfigError, match="larger than 1048576 bytes"):
        fetch_keys(f"http://127.0.0.1:{server.port}/keys", timeout_s=60)
    server.thread.join()
