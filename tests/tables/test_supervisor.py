"""Queries that fail, and when they start again; the test sets the clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from pyspark.errors import StreamingQueryException

from sharegroup.errors import FencedLeaderError, ShareGroupError, StopRequested
from sharegroup.job.lead.stale_checkpoint import StaleCheckpointError
from sharegroup.kafka_clients.kafka_clients import KafkaUnavailableError
from sharegroup.spark.job.supervisor import MAX_DELAY_S, MAX_RESTARTS, Supervisor, is_outage
from sharegroup.storage.writing.versioned_table import TableStoreError


@dataclass
class Query:
    """A query as the supervisor uses it."""

    is_active: bool = True
    ended_by: BaseException | None = None
    batches: int = 0
    has_responded: bool = True

    def end(self, by: BaseException, batches: int = 0) -> None:
        self.is_active, self.ended_by, self.batches = False, by, batches


class Job:
    """Starts of one query that do what `script` defines, and then succeed; `starts` has their times."""

    def __init__(self, *script: BaseException | None) -> None:
        self.script = deque(script)
        self.now = 0.0
        self.starts: list[float] = []
        self.query = Query()
        self.supervisor = Supervisor({"q": self.start}, lambda: self.now)

    def start(self) -> Query:
        self.starts.append(self.now)
        failure = self.script.popleft() if self.script else None
        if failure is not None:
            raise failure
        self.query = Query()
        return self.query

    def run(self, seconds: int) -> bool:
        """Run the supervisor; return whether the query runs in the end."""
        for _ in range(seconds):
            self.supervisor.watch()
            self.now += 1
        return self.supervisor.watch()


def unavailable() -> KafkaUnavailableError:
    error = KafkaUnavailableError("cannot connect to Kafka")
    error.__cause__ = KafkaTimeoutError("no broker")
    return error


def test_a_query_that_runs_is_left_alone() -> None:
    job = Job()
    assert job.run(100)
    assert job.starts == [0]


def test_a_query_counts_as_running_after_its_first_response() -> None:
    job = Job()
    job.supervisor.watch()
    job.query.has_responded = False
    assert not job.run(10)
    job.query.has_responded = True
    assert job.run(1)
    assert job.starts == [0]


def test_an_outage_is_outlasted() -> None:
    job = Job(None, *[unavailable() for _ in range(40)])
    assert job.run(1)
    job.query.end(RuntimeError("the batch failed"), batches=7)
    assert not job.run(60)
    assert job.starts == [0, 2, 4, 8, 16, 32]  # failed at 1; started again after 1, 2, 4, ...
    assert not job.run(600)
    assert {after - before for before, after in zip(job.starts[6:], job.starts[7:], strict=False)} == {MAX_DELAY_S}
    job.script.clear()
    assert job.run(int(MAX_DELAY_S))
    last = job.starts[-1]
    assert job.run(100)
    assert job.starts[-1] == last


def test_an_unavailable_store_is_waited_for_too() -> None:
    away = TableStoreError(
        "OSError: Generic S3 error Error performing GET http://store - HTTP error error sending request"
    )
    job = Job(away, None, *[away for _ in range(40)])
    assert job.run(3)
    job.query.end(away)
    assert not job.run(600)
    job.script.clear()
    assert job.run(int(MAX_DELAY_S))


def test_a_store_that_rejects_requests_is_not_waited_for() -> None:
    refused = TableStoreError("OSError: The operation lacked the necessary privileges: 403 Forbidden")
    with pytest.raises(TableStoreError):
        Job(refused).run(1)
    job = Job(None, *[refused for _ in range(MAX_RESTARTS)])
    assert job.run(1)
    job.query.end(refused)
    with pytest.raises(ShareGroupError, match="times in a row"):
        job.run(200)


def test_a_job_may_start_before_kafka_does() -> None:
    job = Job(unavailable(), unavailable())
    assert not job.run(2)
    assert job.run(2)
    assert job.starts == [0, 1, 3]


def test_other_failures_end_the_job_after_some_in_a_row() -> None:
    job = Job()
    for _ in range(MAX_RESTARTS):
        assert job.run(40)
        job.query.end(RuntimeError("no"))
    assert job.run(40)
    job.query.end(RuntimeError("once more"))
    with pytest.raises(ShareGroupError, match=f"query q failed {MAX_RESTARTS + 1} times in a row") as caught:
        job.run(1)
    assert str(caught.value.__cause__) == "once more"


def test_failures_with_batches_in_between_are_not_in_a_row() -> None:
    job = Job()
    for _ in range(3 * MAX_RESTARTS):
        assert job.run(2)
        job.query.end(RuntimeError("no"), batches=1)
    assert job.run(2)


def test_failed_starts_count_as_failures() -> None:
    job = Job(None, *[RuntimeError("no") for _ in range(MAX_RESTARTS)])
    assert job.run(1)
    job.query.end(RuntimeError("no"))
    with pytest.raises(ShareGroupError, match="times in a row"):
        job.run(200)


@pytest.mark.parametrize("failure", [FencedLeaderError("another leads"), StaleCheckpointError("stale")])
def test_an_error_that_needs_a_decision_ends_the_job(failure: BaseException) -> None:
    with pytest.raises(type(failure)):
        Job(failure).run(1)
    ended, refused = Job(), Job(None, unavailable(), failure)
    for job, cause in ((ended, failure), (refused, unavailable())):
        assert job.run(1)
        job.query.end(cause)
        with pytest.raises(type(failure)):
            job.run(20)
    assert len(ended.starts) == 1


def test_an_unreadable_checkpoint_ends_the_job_with_instructions() -> None:
    job = Job()
    assert job.run(1)
    told = "operator state of format 99, this job reads 3: remove the checkpoint, and the job recovers from the tables"
    job.query.end(StreamingQueryException(f"Traceback ...\n  File x\nValueError: {told}\n\n at org.apache.spark"))
    with pytest.raises(StaleCheckpointError) as caught:
        job.run(1)
    assert str(caught.value) == told


def test_a_first_start_that_fails_for_another_reason_is_reported() -> None:
    with pytest.raises(RuntimeError, match="no such package"):
        Job(RuntimeError("no such package")).run(1)


def test_a_query_that_was_to_stop_is_not_started_again() -> None:
    job = Job()
    job.run(1)
    job.query.end(StopRequested("SIGTERM"))
    job.run(10)
    assert job.starts == [0]


def caused(cause: BaseException) -> Exception:
    error = RuntimeError("the batch failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("failure", "outage"),
    [
        (None, False),
        (RuntimeError("no"), False),
        (KafkaTimeoutError(), True),
        (caused(unavailable()), True),
        (TopicAuthorizationFailedError(), False),
        (UnknownTopicOrPartitionError(), False),
        (StreamingQueryException("org.apache.kafka.common.errors.TimeoutException: describeTopics"), True),
        (StreamingQueryException("org.apache.kafka.common.errors.TopicAuthorizationException: no"), False),
    ],
)
def test_an_outage_is_kafka_s_and_passes(failure: BaseException | None, outage: bool) -> None:
    assert is_outage(failure) is outage
