"""The gateway's line to the job: request rows out, its own response rows in, on the event loop.

kafka-python's producer and consumer have threads of their own; this is where they meet the loop. One thread polls the
partition of the response topic that this gateway's key is in.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.partitioner.default import murmur2

from sharegroup.channel.row_channel import RowTopics
from sharegroup.errors import ShareGroupError
from sharegroup.protocol.request_rows import ShareGroupRequest, SharePartitionRequest
from sharegroup.protocol.response_rows import Response, decode_response

logger = logging.getLogger(__name__)

Request = ShareGroupRequest | SharePartitionRequest
POLL_MS = 500


class EngineUnavailableError(ShareGroupError):
    """The job, or the brokers between it and us, did not answer in time; the requester may try again."""


class EngineChannel:
    """See the module. `settings` are kafka-python's."""

    def __init__(self, settings: Mapping[str, Any], topics: RowTopics, timeout_s: float) -> None:
        self._settings, self._topics, self._timeout_s = settings, topics, timeout_s
        self.reply_to = f"gateway-{uuid.uuid4().hex}"
        self._ids = (f"{number:x}" for number in itertools.count(1))
        self._waiting: dict[str, asyncio.Future[Response]] = {}
        self._subscribers: dict[str, Callable[[Response], None]] = {}
        self._stopping = threading.Event()
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._producer: KafkaProducer | None = None
        self._reader: threading.Thread | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; requests wait for it."""
        self._reader = threading.Thread(target=self._read, name="engine-responses", daemon=True)
        self._reader.start()

    async def close(self) -> None:
        """Send what is on its way, then close the connections."""
        self._stopping.set()
        if self._reader is not None:
            await self._loop.run_in_executor(None, self._reader.join, 5)
        producer = self._producer  # after the reader, which may be about to make it, or look up topics by it
        if producer is not None:
            await self._loop.run_in_executor(None, lambda: producer.close(timeout=5))

    @property
    def is_ready(self) -> bool:
        """Whether responses are being read."""
        return self._ready.is_set()

    # -- requests --------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id for a request row, unique in this gateway."""
        return next(self._ids)

    def append(self, request: Request) -> Awaitable[None]:
        """Produce a row, in order with others; what is returned waits until it is durable.

        Raises EngineUnavailableError, then or now.
        """
        return self._durable(self._send(request))

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        """Produce a row, in order with others, without waiting for it.

        A row that cannot be produced is logged: what it would have given back comes back when its locks run out.
        """

        def done(sent: asyncio.Future[None]) -> None:
            problem = sent.exception() if not sent.cancelled() else None
            if problem is not None:
                logger.warning("a request row was not sent: %s", problem)
                if failed is not None:
                    failed()

        try:
            self._send(request).add_done_callback(done)
        except EngineUnavailableError as error:
            logger.warning("a request row was not sent: %s", error)
            if failed is not None:
                failed()

    def now_ms(self) -> int:
        """The time, in milliseconds since the epoch: the clock that lock deadlines are told by."""
        return int(time.time() * 1000)

    async def ask(self, request: Request) -> Response:
        """Produce a row and wait for its response. Raises EngineUnavailableError."""
        await self._wait_ready()
        future: asyncio.Future[Response] = self._loop.create_future()
        self._waiting[request.id] = future
        try:
            await self._durable(self._send(request))
            return await asyncio.wait_for(future, self._timeout_s)
        except asyncio.TimeoutError:
            raise EngineUnavailableError(f"the job did not answer within {self._timeout_s:g} s") from None
        finally:
            self._waiting.pop(request.id, None)

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        """Have the response to a request given to `receive`, on the event loop; once."""
        self._subscribers[request_id] = receive

    def unsubscribe(self, request_id: str) -> None:
        """Nobody waits for that response any more."""
        self._subscribers.pop(request_id, None)

    async def _wait_ready(self) -> None:
        if self._ready.is_set():
            return
        try:
            await asyncio.wait_for(self._ready.wait(), self._timeout_s)
        except asyncio.TimeoutError:
            raise EngineUnavailableError("the job's topics are not there: is the job running?") from None

    def _send(self, request: Request) -> asyncio.Future[None]:
        """Hand a row to the producer; the future is done when the row is durable."""
        if self._producer is None or not self._ready.is_set():
            raise EngineUnavailableError("the job's topics are not there: is the job running?")
        durable: asyncio.Future[None] = self._loop.create_future()
        is_group = isinstance(request, ShareGroupRequest)
        topic = self._topics.share_group_requests if is_group else self._topics.share_partition_requests
        try:
            sent = self._producer.send(topic, key=request.kafka_key, value=request.encode())
        except KafkaError as error:
            raise EngineUnavailableError(f"the request cannot be produced: {error}") from error
        sent.add_callback(lambda _: self._loop.call_soon_threadsafe(_settle, durable, None))
        sent.add_errback(lambda error: self._loop.call_soon_threadsafe(_settle, durable, error))
        return durable

    async def _durable(self, sent: asyncio.Future[None]) -> None:
        try:
            await asyncio.wait_for(sent, self._timeout_s)
        except asyncio.TimeoutError:
            raise EngineUnavailableError(f"the request was not durable within {self._timeout_s:g} s") from None
        except KafkaError as error:
            raise EngineUnavailableError(f"the request cannot be produced: {error}") from error

    # -- responses: the reader's thread ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Until we stop, whatever goes wrong: a gateway that hears no responses is of no use."""
        consumer = None
        while not self._stopping.is_set():
            try:
                if consumer is None:
                    consumer = self._open()
                for messages in consumer.poll(timeout_ms=POLL_MS).values():
                    self._receive(messages)
            except Exception as error:  # noqa: BLE001 - kafka-python raises more than KafkaError
                if self._stopping.is_set():
                    break
                logger.warning("responses cannot be read, will try again: %s", error)
                if consumer is not None and not isinstance(error, KafkaError):
                    consumer.close()
                    consumer = None
                self._stopping.wait(1)
        if consumer is not None:
            consumer.close()

    def _open(self) -> KafkaConsumer:
        """Begin at the end of the partition that the default partitioner gives for our key. Raises KafkaError."""
        if self._producer is None:
            # No linger: a waiting client's acknowledgement is worth more than a fuller batch. Its rows are small.
            # It must not block the loop: topics are looked up here, and a full buffer is an error.
            self._producer = KafkaProducer(
                **self._settings, acks="all", enable_idempotence=True, linger_ms=0, max_block_ms=100
            )
        consumer = KafkaConsumer(
            **self._settings, group_id=None, enable_auto_commit=False, auto_offset_reset="latest", fetch_max_wait_ms=500
        )
        try:
            partitions = consumer.partitions_for_topic(self._topics.responses)
            if not partitions:
                logger.info("waiting for the job to create its topics")
            while not partitions:
                self._pause(0.5)
                partitions = consumer.partitions_for_topic(self._topics.responses)
            for topic in (self._topics.share_group_requests, self._topics.share_partition_requests):
                while not self._knows(topic):
                    self._pause(0.1)
            index = (murmur2(self.reply_to.encode()) & 0x7FFFFFFF) % len(partitions)
            partition = TopicPartition(self._topics.responses, sorted(partitions)[index])
            consumer.assign([partition])
            consumer.seek_to_end(partition)
            consumer.position(partition)  # now, not at the first poll: a response may come before
        except BaseException:
            consumer.close()
            raise
        self._loop.call_soon_threadsafe(self._ready.set)
        return consumer

    def _pause(self, seconds: float) -> None:
        """Raises EngineUnavailableError when we are to stop."""
        if self._stopping.wait(seconds):
            raise EngineUnavailableError("the gateway stops")

    def _knows(self, topic: str) -> bool:
        """Whether the producer has the topic's metadata, so that `send` does not have to wait for it."""
        assert self._producer is not None
        try:
            return bool(self._producer.partitions_for(topic))
        except KafkaTimeoutError:
            return False

    def _receive(self, messages: list[Any]) -> None:
        key = self.reply_to.encode()
        ours = []
        for message in messages:
            if message.key == key:  # other gateways' rows of the same partition are not even decoded
                try:
                    ours.append(decode_response(message.value))
                except ValueError as error:
                    logger.warning("response row at offset %d cannot be read: %s", message.offset, error)
        if ours and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, ours)

    # -- responses: the event loop -----------------------------------------------------------------------------------

    def _deliver(self, responses: list[Response]) -> None:
        for response in responses:
            future = self._waiting.pop(response.id, None)
            if future is not None and not future.done():
                future.set_result(response)
            receive = self._subscribers.pop(response.id, None)
            if receive is not None:
                receive(response)


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
