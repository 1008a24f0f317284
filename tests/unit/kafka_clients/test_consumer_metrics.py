"""The metrics of a share consumer."""

from __future__ import annotations

from math import isnan

from sharegroup.kafka_clients.consumer_metrics import ConsumerMetrics, Measured


def test_averages_and_maxima_are_those_of_the_last_windows() -> None:
    measured = Measured(0)
    measured.record(10, 0)
    measured.record(2, 31_000)
    assert (measured.average(31_000), measured.max(31_000)) == (6, 10)
    assert (measured.average(61_000), measured.max(61_000)) == (2, 2)  # the first window is dropped
    assert isnan(measured.average(200_000))
    assert isnan(measured.max(200_000))
    assert (measured.count, measured.total) == (2, 12)


def test_rates_are_per_second_of_at_least_a_window() -> None:
    measured = Measured(0)
    measured.record(60, 1_000)
    measured.record(30, 2_000)
    assert (measured.total_per_s(2_000), measured.count_per_s(30_000)) == (3, 2 / 30)


def test_rates_are_zero_when_all_windows_are_old() -> None:
    measured = Measured(0)
    measured.record(60, 1_000)
    assert measured.total_per_s(200_000) == 0
    measured.record(60, 200_000)
    assert measured.count_per_s(400_000) == 0


def test_poll_metrics() -> None:
    metrics = ConsumerMetrics(0)
    polls = metrics.values(0)["consumer-share-metrics"]
    assert polls["last-poll-seconds-ago"] == -1
    assert isnan(polls["poll-idle-ratio-avg"])
    for start_ms in (0, 1_000, 2_000):
        metrics.poll_began(start_ms)
        metrics.poll_ended(start_ms + 250)
    polls = metrics.values(5_000)["consumer-share-metrics"]
    assert polls == {
        "last-poll-seconds-ago": 3,
        "time-between-poll-avg": 1_000,
        "time-between-poll-max": 1_000,
        "poll-idle-ratio-avg": 0.25,
    }


def test_names_are_those_of_kafkas_client() -> None:
    """Kafka 4.3's consumer has these names, beside those of its connections."""
    values = ConsumerMetrics(0).values(0)
    assert {group: set(metrics) for group, metrics in values.items()} == {
        "consumer-share-metrics": {
            "last-poll-seconds-ago",
            "poll-idle-ratio-avg",
            "time-between-poll-avg",
            "time-between-poll-max",
        },
        "consumer-share-coordinator-metrics": {
            "heartbeat-rate",
            "heartbeat-response-time-max",
            "heartbeat-total",
            "last-heartbeat-seconds-ago",
            "rebalance-rate-per-hour",
            "rebalance-total",
        },
        "consumer-share-fetch-manager-metrics": {
            "acknowledgements-error-rate",
            "acknowledgements-error-total",
            "acknowledgements-send-rate",
            "acknowledgements-send-total",
            "bytes-consumed-rate",
            "bytes-consumed-total",
            "fetch-latency-avg",
            "fetch-latency-max",
            "fetch-rate",
            "fetch-size-avg",
            "fetch-size-max",
            "fetch-throttle-time-avg",
            "fetch-throttle-time-max",
            "fetch-total",
            "records-consumed-rate",
            "records-consumed-total",
            "records-per-request-avg",
            "records-per-request-max",
        },
    }
