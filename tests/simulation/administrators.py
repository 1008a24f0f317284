"""Administrators with rows: they alter configs and offsets, and delete offsets and groups; new groups set configs.

Each group has one administrator, which waits for each response, so that the effective values are known from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.response_rows import decode_responses
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    StartOffset,
    TopicMetadata,
)
from tests.simulation.brokers.kafka_log import LogRecord
from tests.simulation.brokers.log_clients import RowSender, RowTail
from tests.simulation.world import GROUP_REQUESTS, RESPONSES, World

#: A callback for an error code, 0 for none.
OnAnswer = Callable[[int], None]
_RESETS = ("earliest", "latest", "by_duration:PT10M")


class Administrator:
    """The random changes and deletions of one group's offsets and configs."""

    def __init__(self, world: World, group_id: str) -> None:
        self._world, self._group_id, self._judge = world, group_id, world.judge
        self._random = world.random(f"admin {group_id}")
        self._numbers = itertools.count(1)
        self._sender = RowSender(world.clock, world.kafka, world.weather)
        key = f"admin-{group_id}".encode()
        self._tail = RowTail(world.clock, world.kafka, world.weather, RESPONSES, key, self._on_row)
        self._waiting: tuple[str, OnAnswer] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether it waits for a response."""
        return self._waiting is not None

    def set_configs(self, configs: dict[str, str | None], then: Callable[[bool], None] = lambda ok: None) -> None:
        """Set configs; `then` is called with whether the response was OK."""
        change = self._judge.alters_configs(self._group_id, configs)
        self._world.trace.add("admin", f"{self._group_id}: sets {configs}")

        def answered(code: int) -> None:
            if code != ErrorCode.UNKNOWN_SERVER_ERROR:
                change.answered_ms, change.ok = self._world.clock.now_ms, not code
            self._world.trace.add("admin", f"{self._group_id}: answered {code} to {configs}")
            then(not code)

        self._ask(AlterConfigsRequest(*self._named(), configs=configs), answered)

    def set_any_config(self) -> None:
        """Set one of the configs that may change at any time."""
        name, values = self._random.choice(
            (
                ("share.auto.offset.reset", _RESETS),
                ("share.record.lock.duration.ms", ("15000", "30000", None)),
                ("share.delivery.count.limit", ("2", "4", None)),
                ("share.isolation.level", ("read_committed", "read_uncommitted")),
                ("share.renew.acknowledge.enable", ("true", "false")),
                ("share.assignor", ("simple", "all", None)),
            )
        )
        self.set_configs({name: self._random.choice(values)})

    def alter_offsets(self, topic: str) -> None:
        """Set the start offsets of some of a topic's partitions; a group with members rejects this."""
        view = self._world.kafka.metadata().get(topic)
        if view is None:
            return
        logs = self._world.kafka.topics[topic].partitions
        chosen = [p for p in range(len(logs)) if self._random.random() < 0.7]
        offsets = tuple(StartOffset(topic, p, self._random.randint(0, logs[p].log_end_offset)) for p in chosen)
        if offsets:
            topics = {topic: TopicMetadata(view.topic_id, len(logs))}
            for partition in chosen:
                self._judge.altered(self._group_id, view.topic_id, partition)
            self._reset(AlterOffsetsRequest(*self._named(), topics=topics, offsets=offsets), offsets)

    def delete_offsets(self, topic: str) -> None:
        """Delete the group's offsets of a topic."""
        self._reset(DeleteOffsetsRequest(*self._named(), topic_names=(topic,)), (topic,))

    def delete_group(self) -> None:
        self._reset(DeleteGroupRequest(*self._named()), ())

    def _named(self) -> tuple[str, str, str]:
        request_id = f"admin-{self._group_id}-{next(self._numbers)}"
        return request_id, self._group_id, f"admin-{self._group_id}"

    def _reset(self, request: AdministratorRequest, about: tuple[object, ...]) -> None:
        """Report to the judge that the group's share-partitions are reset, or may be."""
        self._world.trace.add("admin", f"{self._group_id}: {request.type} {[*about]}")
        self._judge.resets(self._group_id)

        def answered(code: int) -> None:
            self._world.trace.add("admin", f"{self._group_id}: answered {code} to {request.type}")
            is_known = code != ErrorCode.UNKNOWN_SERVER_ERROR
            self._judge.reset_answered(self._group_id, None, not code if is_known else None)

        self._ask(request, answered)

    def _ask(self, request: AdministratorRequest, on_answer: OnAnswer) -> None:
        self._waiting = request.id, on_answer
        self._sender.send(GROUP_REQUESTS, request.kafka_key, request.encode())

    def _on_row(self, append_ms: int, record: LogRecord) -> None:
        if record.key != f"admin-{self._group_id}".encode() or self._waiting is None:
            return
        (response,) = decode_responses(record.value)
        if response.id == self._waiting[0]:
            on_answer, self._waiting = self._waiting[1], None
            on_answer(response.error_code)
