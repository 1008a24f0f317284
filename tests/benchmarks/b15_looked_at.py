"""B15: micro-batches of a job under ten scrapes a second and 20 open pages, against those of one nobody looks at."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.ports import free_port
from tests.benchmarks.b1_batch_time import parts
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.open_pages import OpenPages
from tests.benchmarks.side_by_side import GROUP_ID, JobUnderLoad, Turns

NAME = "B15"
_REACH = 1.05
_PAUSE_S = 0.1
_PAGES = 20


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The figures, and the parts of both sides' batches."""
    active = 20 if quick else 200
    turns = Turns(2, 10, 5) if quick else Turns(6, 40, 20)
    rounds = active * (2 * turns.warm_up + int(turns.number * turns.seconds * 4))
    port = free_port()
    shown = {"metrics.port": port, "metrics.max.partitions": active}
    with (
        JobUnderLoad(kafka, directory / "without", partitions=active, rounds=rounds) as without,
        JobUnderLoad(kafka, directory / "seen", partitions=active, rounds=rounds, settings=shown) as seen,
        Scraper(port) as scraper,
        OpenPages(seen.config, GROUP_ID, seen.topic, _PAGES) as pages,
    ):
        seen.companions.append(pages.processes)
        for job in (without, seen):
            job.member.ask(range(active))
        measured = seen.against(without, turns)
    job, bare = (median([batch.trigger_ms for batch in side]) for side in (measured.job, measured.bare))
    note = f"{len(measured.job)} and {len(measured.bare)} micro-batches in turns; {scraper.scrapes} scrapes,"
    note += f" {pages.renewed} pages"
    cpu, bare_cpu = measured.cpu_ms
    looks = f"ten scrapes a second and {_PAGES} open pages"
    what = f"micro-batch p50 at {active} share-partitions with {looks}, against a job without"
    return [
        Figure(NAME, what, job, "ms", bare, job / bare, f"<= {_REACH}", job / bare <= _REACH, note),
        Figure(NAME, "CPU time of a micro-batch of the job, with its scrapes", cpu, "ms", bare_cpu, cpu / bare_cpu),
    ], {"looked at": parts(measured.job), "without": parts(measured.bare)}


class Scraper:
    """Scrapes inside the `with` block; a job that is held still is waited for."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.scrapes = 0

    def _run(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            try:
                with urllib.request.urlopen(self._url, timeout=1) as answer:
                    answer.read()
            except (TimeoutError, urllib.error.URLError):
                continue
            self.scrapes += 1

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
