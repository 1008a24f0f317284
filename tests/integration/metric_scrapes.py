"""What a process shows at `metrics.port`, as Prometheus would read it."""

from __future__ import annotations

import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

Sample = tuple[str, frozenset[tuple[str, str]]]


def get(port: int, path: str) -> tuple[int, str]:
    """(status, body)"""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Scrape:
    """The samples of one scrape."""

    def __init__(self, port: int) -> None:
        status, self.text = get(port, "/metrics")
        assert status == 200
        self.samples: dict[Sample, float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Of one series; 0 where there is none."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def sum(self, name: str) -> float:
        """Of all series of a metric."""
        return sum(value for (found, _), value in self.samples.items() if found == name)

    @property
    def names(self) -> set[str]:
        """Of all samples."""
        return {name for name, _ in self.samples}
