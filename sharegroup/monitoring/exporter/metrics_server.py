"""Serves `/metrics`, `/healthz` and `/readyz` of one process by HTTP.

/metrics   the metrics for Prometheus; their text is created at most once in `CACHE_S` seconds for all clients
/healthz   200 while the process makes progress; 503 with the reasons if it should be restarted
/readyz    200 while the process serves requests; 503 with the reasons otherwise
"""

import logging
import socketserver
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from sharegroup.errors import ShareGroupError
from sharegroup.log_fields import LogFields
from sharegroup.monitoring.exporter.exposition import Exposition
from sharegroup.monitoring.metrics.metric import MetricFamily

logger = logging.getLogger(__name__)

#: Time in seconds for which the text of a scrape is cached, so that frequent scrapes cost nothing.
CACHE_S = 1.0
#: Time without data after which a client is disconnected, in seconds.
_IDLE_S = 5.0
#: Maximum number of cached texts, one for each distinct Accept header; scrapers send one or two. If there are more, a
#: request gets one of the cached texts.
_MAX_FORMATS = 4
#: Maximum duration of `close`, in seconds.
_CLOSE_S = 0.1
#: Maximum number of concurrent requests. Further clients are disconnected.
_MAX_CLIENTS = 32

#: A function that returns a sentence for each current problem.
Problems = Callable[[], Iterable[str]]


class MetricsUnavailableError(ShareGroupError):
    """The address of the metrics server is not available. An administrator must change the configuration."""


class MetricsServer:
    """Serves metrics and health checks from `start` to `close`.

    `families` returns the current metrics. `unhealthy` and `unready` return the problems that /healthz and /readyz
    report. The server calls these functions on threads of its own.
    """

    def __init__(
        self,
        families: Callable[[], Iterable[MetricFamily]],
        unhealthy: Problems,
        unready: Problems,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exposition = Exposition(families)
        self._clock, self._lock = clock, threading.Lock()
        self._cache: dict[str, _Scrape] = {}
        self._problems = {"/healthz": unhealthy, "/readyz": unready}
        self._server: _Server | None = None

    def start(self, host: str, port: int) -> int:
        """Start to listen, and return the port. If `port` is 0, a free port is chosen.

        Raise MetricsUnavailableError if the address is not available.
        """
        try:
            self._server = _Server((host, port), self._response)
        except (OSError, OverflowError) as error:
            raise MetricsUnavailableError(f"metrics server cannot listen on {host}:{port}: {error}") from error
        threading.Thread(target=self._server.serve_forever, args=(_CLOSE_S,), name="metrics", daemon=True).start()
        logger.info(
            "metrics server listens on http://%(address)s/metrics",
            LogFields(address=f"{host}:{self._server.server_port}"),
        )
        return self._server.server_port

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _response(self, path: str, accept: str) -> tuple[int, str, bytes]:
        """Return (status, content type, body) of the response to a GET request."""
        path = path.partition("?")[0]
        if path == "/metrics":
            return self._scrape(accept)
        if path in self._problems:
            found = list(self._problems[path]())
            return (503 if found else 200), "text/plain; charset=utf-8", ("\n".join(found or ["ok"]) + "\n").encode()
        return 404, "text/plain; charset=utf-8", b"not found; see /metrics, /healthz and /readyz\n"

    def _scrape(self, accept: str) -> tuple[int, str, bytes]:
        with self._lock:
            now = self._clock()
            self._cache = {key: scrape for key, scrape in self._cache.items() if now - scrape.created_s < CACHE_S}
            if accept not in self._cache and len(self._cache) < _MAX_FORMATS:
                self._cache[accept] = _Scrape(now, *self._exposition.text(accept))
            scrape = self._cache.get(accept) or next(iter(self._cache.values()))
        return 200, scrape.content_type, scrape.text


class _Scrape(NamedTuple):
    """The cached text of a scrape, with its time of creation."""

    created_s: float
    text: bytes
    content_type: str


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MAX_CLIENTS

    def __init__(self, address: tuple[str, int], respond: Callable[[str, str], tuple[int, str, bytes]]) -> None:
        self.respond = respond
        self._free = threading.Semaphore(_MAX_CLIENTS)
        super().__init__(address, _Request)

    def server_bind(self) -> None:
        """Bind without a lookup of the host name. http.server looks it up by DNS, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # bytes on no platform

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]  # socketserver's own
        """Start a thread for the request. If `_MAX_CLIENTS` requests are being served, disconnect the client."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        """Handle the request on its thread, then let the server accept another request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        """Log a failed request at debug level. socketserver would print a traceback to stderr."""
        logger.debug("request to the metrics server failed", exc_info=True)


class _Request(BaseHTTPRequestHandler):
    timeout = _IDLE_S
    server: _Server

    def do_GET(self) -> None:
        status, content_type, body = self.server.respond(self.path, self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
        """Do nothing, so that no request is logged."""
