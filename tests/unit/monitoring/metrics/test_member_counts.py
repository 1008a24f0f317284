"""Metrics of a member under the names of Kafka's share consumer."""

from __future__ import annotations

import math

from sharegroup.monitoring.metrics.member_counts import CONSUMER, COORDINATOR, FETCH_MANAGER, MemberCounts


def test_values_of_a_new_member() -> None:
    values = MemberCounts().values(1_000)
    assert values[CONSUMER]["last-poll-seconds-ago"] == -1
    assert values[COORDINATOR]["last-heartbeat-seconds-ago"] == -1
    assert math.isnan(values[FETCH_MANAGER]["fetch-latency-avg"])


def test_response_times_of_heartbeats_and_fetches() -> None:
    counts = MemberCounts()
    counts.count_heartbeat("h1", 1_000)
    counts.count_heartbeat("h2", 6_000)
    counts.count_heartbeat_response("h1", 6_500)
    counts.count_heartbeat_response("h1", 9_000)
    counts.count_fetch("f1", 7_000)
    counts.count_fetch("f2", 7_000)
    counts.count_fetch_response("f1", 7_100)
    counts.count_fetch_response("f2", 7_300)
    values = counts.values(9_999)
    assert values[COORDINATOR]["heartbeat-total"] == 2
    assert values[COORDINATOR]["heartbeat-response-time-max"] == 5_500
    assert values[COORDINATOR]["last-heartbeat-seconds-ago"] == 3
    assert (values[FETCH_MANAGER]["fetch-latency-avg"], values[FETCH_MANAGER]["fetch-latency-max"]) == (200, 300)


def test_batches_and_acknowledgements_are_counted() -> None:
    counts = MemberCounts()
    for records, now_ms in ((10, 1_000), (30, 1_400), (20, 2_400)):
        counts.count_poll(records, now_ms)
        counts.count_acknowledgements(records)
    counts.count_failures(2)
    values = counts.values(4_400)
    assert values[CONSUMER] == {
        "last-poll-seconds-ago": 2, "time-between-poll-avg": 700, "time-between-poll-max": 1_000
    }  # fmt: skip
    fetched = values[FETCH_MANAGER]
    assert (fetched["records-consumed-total"], fetched["records-per-request-avg"]) == (60, 20)
    assert fetched["records-per-request-max"] == 30
    assert (fetched["acknowledgements-send-total"], fetched["acknowledgements-error-total"]) == (60, 2)


def test_requests_without_responses_use_bounded_memory() -> None:
    counts = MemberCounts()
    for number in range(5_000):
        counts.count_fetch(f"f{number}", number)
    counts.count_fetch_response("f0", 9_000)
    counts.count_fetch_response("f4999", 9_000)
    assert counts.values(9_000)[FETCH_MANAGER]["fetch-latency-max"] == 4_001
