"""Load on the job by rows of its topics, through a fast client (librdkafka) on a thread of its own."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition

from sharegroup.config import JobConfig
from sharegroup.protocol.rows.response_rows import Response, decode_responses

if TYPE_CHECKING:
    from typing import Self


class RowLoad(ABC):
    """Heartbeats, and takes the rows for `reply_to`, inside the `with` block. `row_topics` names the three topics of
    the job's rows, by their config keys."""

    def __init__(self, bootstrap_servers: str, row_topics: Mapping[str, str], reply_to: str, *, linger_ms: int) -> None:
        self._config = JobConfig.model_validate(dict(row_topics))
        self._reply_to, self._ids = reply_to, map(str, itertools.count())
        settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._producer = Producer({**settings, "linger.ms": linger_ms})
        self._consumer = Consumer(
            {**settings, "group.id": reply_to, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        )
        numbers = range(self._config.request_topic_partitions)
        self._consumer.assign([TopicPartition(self._config.responses_topic, p, OFFSET_END) for p in numbers])
        self._going = threading.Event()
        self._going.set()
        self._stop = threading.Event()
        self._rows_came = 0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @abstractmethod
    def _await_members(self) -> None:
        """Wait until whoever the load is for has joined."""

    @abstractmethod
    def _heartbeat(self) -> None:
        """Send the heartbeats that are due."""

    @abstractmethod
    def _take(self, response: Response) -> None:
        """Take a response in."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._await_members()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._going.set()
        self._thread.join()
        self._producer.flush()
        self._consumer.close()
        if error is None and self._failure is not None:
            raise RuntimeError("the load has failed") from self._failure

    def hold(self) -> None:
        """Answer nothing more; heartbeats go on."""
        self._going.clear()

    def go_on(self) -> None:
        """Answer what has come meanwhile, and on."""
        self._going.set()

    def _await(self, condition: Callable[[], bool], what: str, timeout_s: float = 120) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._failure is not None:
                raise RuntimeError("the load has failed") from self._failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
            time.sleep(0.05)  # polls the load's thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._heartbeat()
                if not self._going.is_set():
                    self._going.wait(0.2)
                    continue
                for message in self._messages():
                    if message.error() is None and message.key() == self._reply_to.encode():
                        self._rows_came += 1
                        for response in decode_responses(message.value() or b""):
                            self._take(response)
                self._producer.poll(0)
        except BaseException as error:
            self._failure = error
            raise

    def _messages(self) -> list[Message]:
        """What has come, as soon as there is something: `consume` alone waits for as many as it may give."""
        first = self._consumer.poll(0.1)
        return [] if first is None else [first, *self._consumer.consume(2_000, 0)]
