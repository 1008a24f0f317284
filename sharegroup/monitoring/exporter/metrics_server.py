"""`/metrics`, `/healthz` and `/readyz` of one process.

/metrics   the text of a scrape; made at most once in `FRESH_S`, however many ask
/healthz   200 while the process gets on; 503 and why, when it should be started again
/readyz    200 when it serves; 503 and why not
"""

from __future__ import annotations

import logging
import socketserver
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from sharegroup.errors import ShareGroupError
from sharegroup.monitoring.exporter.exposition import Exposition
from sharegroup.monitoring.metrics.metric import Family

logger = logging.getLogger(__name__)

#: For so long a text is shown again: who scrapes faster is told nothing newer, and costs nothing.
FRESH_S = 1.0
#: A client that says nothing for so long is disconnected.
_SILENT_S = 5.0
#: Accept headers that are answered each in its own way within `FRESH_S`; scrapers send one or two.
_MOST_KINDS = 4
#: How long `close` may take.
_END_S = 0.1
#: Requests at the same time; whoever comes then is disconnected.
_MOST_CLIENTS = 32

#: What is wrong, in sentences; nothing: all is well.
Problems = Callable[[], Iterable[str]]


class MetricsUnavailableError(ShareGroupError):
    """The operator's: the address for metrics cannot be listened on."""


class MetricsServer:
    """Serves from `start` until `close`. The callables are called on its threads."""

    def __init__(
        self,
        families: Callable[[], Iterable[Family]],
        unhealthy: Problems,
        unready: Problems,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exposition = Exposition(families)
        self._clock, self._making = clock, threading.Lock()
        self._made: dict[str, _Made] = {}
        self._problems = {"/healthz": unhealthy, "/readyz": unready}
        self._server: _Server | None = None

    def start(self, host: str, port: int) -> int:
        """Listen; the port, which is any free one for 0. Raises MetricsUnavailableError."""
        try:
            self._server = _Server((host, port), self._answer)
        except (OSError, OverflowError) as error:
            raise MetricsUnavailableError(f"metrics cannot be served at {host}:{port}: {error}") from error
        threading.Thread(target=self._server.serve_forever, args=(_END_S,), name="metrics", daemon=True).start()
        logger.info("metrics at http://%s:%d/metrics", host, self._server.server_port)
        return self._server.server_port

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _answer(self, path: str, accept: str) -> tuple[int, str, bytes]:
        """(status, content type, body) of a GET."""
        path = path.partition("?")[0]
        if path == "/metrics":
            return self._scrape(accept)
        if path in self._problems:
            found = list(self._problems[path]())
            return (503 if found else 200), "text/plain; charset=utf-8", ("\n".join(found or ["ok"]) + "\n").encode()
        return 404, "text/plain; charset=utf-8", b"metrics are at /metrics, see also /healthz and /readyz\n"

    def _scrape(self, accept: str) -> tuple[int, str, bytes]:
        with self._making:
            now = self._clock()
            self._made = {kind: made for kind, made in self._made.items() if now - made.at_s < FRESH_S}
            if accept not in self._made and len(self._made) < _MOST_KINDS:
                self._made[accept] = _Made(now, *self._exposition.text(accept))
            made = self._made.get(accept) or next(iter(self._made.values()))
        return 200, made.content_type, made.text


class _Made(NamedTuple):
    """The text of a scrape, and when it was made."""

    at_s: float
    text: bytes
    content_type: str


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CLIENTS

    def __init__(self, address: tuple[str, int], answer: Callable[[str, str], tuple[int, str, bytes]]) -> None:
        self.answer = answer
        self._free = threading.Semaphore(_MOST_CLIENTS)
        super().__init__(address, _Request)

    def server_bind(self) -> None:
        """socketserver's. http.server's asks for the host's full name as well, for which DNS may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # bytes on no platform

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]  # socketserver's own
        """socketserver's: have a thread answer, if there is one left."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        """socketserver's: on the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        """socketserver's: it would print a trace."""
        logger.debug("a request for metrics failed", exc_info=True)


class _Request(BaseHTTPRequestHandler):
    timeout = _SILENT_S
    server: _Server

    def do_GET(self) -> None:
        """Answer."""
        status, content_type, body = self.server.answer(self.path, self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
        """http.server's: no line for each scrape."""
