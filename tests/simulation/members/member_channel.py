"""`RowChannel` of a simulated Spark member: its requests, its responses, its topics' metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from sharegroup.kafka_clients.row_topics.row_channel import APPEND_TIMEOUT_S
from sharegroup.member.member_logic import Request
from sharegroup.protocol.rows.response_rows import Response, decode_responses
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_partition_requests import UnacquireRequest
from tests.simulation.brokers.kafka_log import LogBatch, LogRecord
from tests.simulation.brokers.log_clients import OnAppended, RowSender, RowTail
from tests.simulation.process_time import ProcessTime
from tests.simulation.spark.spark_witness import SparkWitness
from tests.simulation.world import GROUP_REQUESTS, PARTITION_REQUESTS, RESPONSES, World


class MemberChannel:
    """The member's requests and responses. `on_response` is called when there is a response."""

    def __init__(
        self, world: World, time: ProcessTime, random: Random, witness: SparkWitness, on_response: Callable[[], None]
    ) -> None:
        self._world, self._time, self._random, self._witness = world, time, random, witness
        self._key = witness.member_id.encode()
        self._on_response = on_response
        self._responses: list[Response] = []
        self._cut_until_ms = 0.0
        self._sender = RowSender(world.clock, world.kafka, world.weather)
        self._tail: RowTail | None = None

    def open(self) -> None:
        """Begin to read responses."""
        self._tail = RowTail(
            self._world.clock, self._world.kafka, self._world.weather, RESPONSES, self._key, self._on_row
        )

    def close(self) -> None:
        """Stop sending and reading, because the process has ended."""
        self._sender.close()
        if self._tail is not None:
            self._tail.close()

    def cut_off(self, ms: float) -> None:
        """Make Kafka unreachable for a time."""
        self._cut_until_ms = max(self._cut_until_ms, self._time.now_ms + ms)

    def taken(self) -> list[Response]:
        """Return the responses that have arrived."""
        if self._time.now_ms < self._cut_until_ms:
            return []
        taken, self._responses = self._responses, []
        for response in taken:
            self._witness.hears(response)
        return taken

    def send(self, requests: Sequence[Request], then: Callable[[bool], None] | None = None) -> None:
        """Produce rows; `then` is called with True when all are appended, with False if this was not known in time."""
        sending = _Sending(len(requests), then)
        for request in requests:
            self._produce(request, sending.one_of(self._witness.sends(request)))
        if then is not None:
            self._time.after(APPEND_TIMEOUT_S * 1000, sending.give_up)

    def topic_names(self) -> set[str]:
        """Return the existing topics."""
        return set(self._world.kafka.topics)

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Return ids and partition counts, as some broker has them."""
        lag_ms = self._random.choice((0, 0, 1_000, 20_000)) if self._world.has("slow_metadata") else 0
        view = self._world.kafka.metadata(lag_ms)
        return {name: TopicMetadata(view[name].topic_id, len(view[name].leaders)) for name in names if name in view}

    def _produce(self, request: Request, on_appended: OnAppended) -> None:
        topic = GROUP_REQUESTS if isinstance(request, ShareGroupRequest) else PARTITION_REQUESTS
        # A duplicate of a returned range could not be distinguished from the next acquired range of the same count.
        may_repeat = not isinstance(request, UnacquireRequest)

        def produce() -> None:
            self._sender.send(topic, request.kafka_key, request.encode(), on_appended, may_repeat)

        if self._time.now_ms < self._cut_until_ms:
            self._time.after(self._cut_until_ms - self._time.now_ms, produce)
        else:
            produce()

    def _on_row(self, append_ms: int, record: LogRecord) -> None:
        if record.key == self._key:
            self._responses += decode_responses(record.value)
            self._time.after(max(0.0, self._cut_until_ms - self._time.now_ms), self._on_response)


class _Sending:
    """Rows that were sent together."""

    def __init__(self, rows: int, then: Callable[[bool], None] | None) -> None:
        self._left, self._then = rows, then

    def one_of(self, told: OnAppended) -> OnAppended:
        """Return the callback for the append of one of them, which also calls `told`."""

        def appended(answer: object) -> None:
            if isinstance(answer, LogBatch):
                told(answer)
                self._left -= 1
                if not self._left:
                    self._end(True)

        return appended

    def give_up(self) -> None:
        """Stop waiting, because it has taken too long."""
        self._end(False)

    def _end(self, in_time: bool) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(in_time)
