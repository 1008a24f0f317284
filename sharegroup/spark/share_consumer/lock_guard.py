"""Spark jobs that must not outlive the locks of a batch: a watch cancels them when one is lost."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sharegroup.errors import ShareGroupError

#: How often the watch looks.
WATCH_S = 1.0


class LocksLostError(ShareGroupError):
    """Others may have records of the batch: what it would do to them must not happen."""

    def __init__(self) -> None:
        super().__init__(
            "the batch has lost locks: it took longer than max_processing_ms, or the process stood still, or could not "
            "reach Kafka, or a topic of it was deleted"
        )


@contextlib.contextmanager
def only_while_held(spark: SparkSession, is_held: Callable[[], bool]) -> Iterator[None]:
    """Run the block while `is_held`: not at all without, and its Spark jobs are cancelled when that ends.

    `max_processing_ms` ends it while the locks still last, by half a lock or so: time enough for a commit that follows
    the last job. Raises LocksLostError.
    """
    if not is_held():
        raise LocksLostError
    context, tag = spark.sparkContext, f"share-consumer-{uuid.uuid4().hex}"
    is_over = threading.Event()

    def watch() -> None:
        with contextlib.suppress(Py4JError, ConnectionError):  # the JVM is gone, and its jobs with it
            while not is_over.wait(WATCH_S):
                if not is_held():
                    context.cancelJobsWithTag(tag)  # again and again: a job may be followed by another

    watcher = threading.Thread(target=watch, name="share-consumer-locks", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    except Exception as error:
        if not is_held():
            raise LocksLostError from error
        raise
    finally:
        is_over.set()
        watcher.join()
        context.removeJobTag(tag)
