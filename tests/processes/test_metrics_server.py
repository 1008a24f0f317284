"""Metrics over HTTP: what scrapers and probes are answered."""

from __future__ import annotations

import select
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sharegroup.monitoring.exporter.metrics_server import (
    _MAX_CLIENTS,
    CACHE_S,
    MetricsServer,
    MetricsUnavailableError,
    _Request,
)
from sharegroup.monitoring.metrics.metric import Counter, Histogram, Metric, MetricFamily, MetricKind, gauge

REQUESTS = Metric("t_requests_total", MetricKind.COUNTER, "Requests.", ("api",))
SIZE = Metric("t_size_bytes", MetricKind.GAUGE, "Size.")
SECONDS = Metric("t_seconds", MetricKind.HISTOGRAM, "Time.", ("api",), bounds=(0.5, 1))


class Served:
    """A server of three metrics, with what it says of its health to be set."""

    def __init__(self) -> None:
        self.requests, self.seconds, self.now = Counter(REQUESTS), Histogram(SECONDS), 100.0
        self.scrapes = 0
        self.unhealthy: list[str] = []
        self.unready: list[str] = []
        self.server = MetricsServer(
            self._families, lambda: self.unhealthy, lambda: self.unready, clock=lambda: self.now
        )
        self.port = self.server.start("127.0.0.1", 0)

    def _families(self) -> Iterator[MetricFamily]:
        self.scrapes += 1
        yield from (self.requests.family(), self.seconds.family(), gauge(SIZE, [((), 7)]))

    def get(self, path: str, accept: str = "", method: str = "GET") -> tuple[int, str]:
        url, headers = f"http://127.0.0.1:{self.port}{path}", {"Accept": accept}
        request = urllib.request.Request(url, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            (sample.name, tuple(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
        }


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.server.close()


def test_each_kind_of_metric_is_scraped_as_it_was_counted(served: Served) -> None:
    served.requests.add(3, 'a "b"\n')
    served.seconds.observe(0.5, "x")
    served.seconds.observe(2, "x", times=2)
    found = served.samples()
    assert found["t_requests_total", (("api", 'a "b"\n'),)] == 3
    assert found["t_size_bytes", ()] == 7
    buckets = [found["t_seconds_bucket", (("api", "x"), ("le", le))] for le in ("0.5", "1.0", "+Inf")]
    assert (buckets, found["t_seconds_sum", (("api", "x"),)]) == ([1, 1, 3], 4.5)
    assert ("process_cpu_seconds_total", ()) in found


def test_openmetrics_is_given_to_who_asks_for_it(served: Served) -> None:
    assert served.get("/metrics", "application/openmetrics-text; version=1.0.0")[1].endswith("# EOF\n")
    assert "# EOF" not in served.get("/metrics")[1]


def test_who_scrapes_faster_than_it_changes_costs_nothing(served: Served) -> None:
    first = served.get("/metrics")
    served.requests.add(1, "x")
    assert served.get("/metrics") == first
    assert served.scrapes == 1
    served.now += CACHE_S
    assert 't_requests_total{api="x"} 1.0' in served.get("/metrics")[1]


def test_ever_new_accept_headers_cost_no_more_than_a_few_scrapes(served: Served) -> None:
    for number in range(20):
        assert served.get("/metrics", f"text/plain; q=0.{number}")[0] == 200
    assert served.scrapes < 20
    served.now += CACHE_S
    served.requests.add(1, "new")
    assert 't_requests_total{api="new"} 1.0' in served.get("/metrics", "text/plain; q=0.19")[1]


def test_probes_say_what_is_wrong(served: Served) -> None:
    assert served.get("/healthz") == (200, "ok\n")
    assert served.get("/readyz?verbose") == (200, "ok\n")
    served.unready = ["the job has not become the leader yet", "a query does not run"]
    assert served.get("/readyz") == (503, "the job has not become the leader yet\na query does not run\n")
    assert served.get("/healthz") == (200, "ok\n")
    served.unhealthy = ["it hangs"]
    assert served.get("/healthz") == (503, "it hangs\n")


def test_anything_else_is_not_there(served: Served) -> None:
    assert served.get("/")[0] == 404
    assert served.get("/metrics", method="POST")[0] == 501


def test_an_address_that_is_taken_is_said(served: Served) -> None:
    other = MetricsServer(list, list, list)
    with pytest.raises(MetricsUnavailableError, match=f"metrics server cannot listen on 127.0.0.1:{served.port}: "):
        other.start("127.0.0.1", served.port)
    other.close()


def test_who_says_nothing_takes_no_place_from_a_scraper_for_ever(served: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=600) for _ in range(_MAX_CLIENTS)]
    for connection in silent:
        assert _end(connection) == b""
        connection.close()
    assert served.get("/healthz") == (200, "ok\n")


def test_clients_for_whom_there_is_no_place_are_disconnected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Request, "timeout", 600)
    silent = [socket.create_connection(("127.0.0.1", served.port), timeout=600) for _ in range(_MAX_CLIENTS + 8)]
    try:
        assert [_end(connection) for connection in silent[_MAX_CLIENTS:]] == [b""] * 8
        assert select.select(silent[:_MAX_CLIENTS], [], [], 0)[0] == []
    finally:
        for connection in silent:
            connection.close()


def _end(connection: socket.socket) -> bytes:
    """Wait until the server sends something or disconnects this client; empty if it disconnects."""
    try:
        return connection.recv(1)
    except ConnectionResetError:
        return b""


def test_a_closed_one_is_not_there_any_more(served: Served) -> None:
    served.server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", served.port), timeout=60)
    served.server.close()
