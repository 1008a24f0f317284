"""A guard that cancels the Spark jobs of a batch when one of its locks is lost."""

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sharegroup.errors import ShareGroupError

#: The interval at which the guard checks the locks, in seconds.
WATCH_S = 1.0


class LocksLostError(ShareGroupError):
    """Other members may have records of the batch, so its changes must not be applied."""

    def __init__(self) -> None:
        super().__init__(
            "the batch has lost locks and is released: it exceeded max_processing_ms, the process was suspended or "
            "could not reach Kafka, or one of its topics was deleted"
        )


@contextlib.contextmanager
def while_locks_held(spark: SparkSession, is_held: Callable[[], bool]) -> Iterator[None]:
    """Run the block, check `is_held` every second, and cancel the block's Spark jobs when it returns False.

    A commit that follows the last Spark job is not cancelled, but it has time to finish. The reason is that `is_held`
    already returns False when `max_processing_ms` have passed. The locks then still last for about half of their
    duration. Raises LocksLostError if `is_held` returns False before the block begins, or after the block has raised an
    error.
    """
    if not is_held():
        raise LocksLostError
    context, tag = spark.sparkContext, f"share-consumer-{uuid.uuid4().hex}"
    is_over = threading.Event()

    def watch() -> None:
        with contextlib.suppress(Py4JError, ConnectionError):  # the JVM has exited, and with it the jobs
            while not is_over.wait(WATCH_S):
                if not is_held():
                    context.cancelJobsWithTag(tag)  # repeatedly, because another job may follow

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
