"""Tasks on a background thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sharegroup.job.commit.retrying_worker import RetryingWorker
from sharegroup.storage.writing.versioned_table import TableStoreError

PATIENCE_S = 60


@pytest.fixture
def later() -> Iterator[RetryingWorker]:
    made = RetryingWorker("test", retry_s=0.001)
    yield made
    made.close(0)


def test_work_is_done_on_another_thread_and_waited_for_at_the_end(later: RetryingWorker) -> None:
    done_by: list[int] = []
    later(lambda: done_by.append(threading.get_ident()))
    assert later.close(PATIENCE_S)
    assert len(done_by) == 1
    assert done_by != [threading.get_ident()]


def test_tasks_submitted_while_one_runs_are_replaced_by_the_last(later: RetryingWorker) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        done.append("first")

    later(first)
    assert begun.wait(PATIENCE_S)
    later(lambda: done.append("second"))
    later(lambda: done.append("third"))
    go_on.set()
    assert later.close(PATIENCE_S)
    assert done == ["first", "third"]


def test_an_unavailable_store_is_retried(later: RetryingWorker) -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise TableStoreError("away")

    later(work)
    assert later.close(PATIENCE_S)
    assert len(tries) == 3


def test_another_failure_is_raised_at_the_next_submission(later: RetryingWorker) -> None:
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise ValueError("no")

    later(fail)
    assert failed.wait(PATIENCE_S)
    assert not later.close(PATIENCE_S)
    with pytest.raises(ValueError, match="no"):
        later(lambda: None)


def test_the_close_does_not_wait_for_an_unavailable_store(later: RetryingWorker) -> None:
    tried = threading.Event()

    def work() -> None:
        tried.set()
        raise TableStoreError("away")

    later(work)
    assert tried.wait(PATIENCE_S)
    assert not later.close(0.01)


@pytest.fixture
def resting() -> Iterator[tuple[RetryingWorker, list[str]]]:
    """Return a worker that has run its first task, and now pauses for longer than any test takes."""
    made, done = RetryingWorker("test", rest_s=10 * PATIENCE_S), list[str]()
    has_done = threading.Event()

    def first() -> None:
        done.append("first")
        has_done.set()

    made(first)
    assert has_done.wait(PATIENCE_S)
    yield made, done
    made.close(0)


def test_while_it_rests_work_is_put_off_until_some_is_urgent(resting: tuple[RetryingWorker, list[str]]) -> None:
    later, done = resting
    second, third = threading.Event(), threading.Event()
    later(second.set)
    later(third.set, urgent=True)
    assert third.wait(PATIENCE_S)
    assert (done, second.is_set()) == (["first"], False)


def test_the_end_does_not_wait_for_the_rest(resting: tuple[RetryingWorker, list[str]]) -> None:
    later, done = resting
    later(lambda: done.append("second"))
    assert later.close(PATIENCE_S)
    assert done == ["first", "second"]


def test_the_end_of_one_that_has_nothing_to_do(later: RetryingWorker) -> None:
    assert later.close(0)
