"""Administrators: configs and offsets altered, offsets and groups deleted, by rows; new groups with their own configs.

Each group has one, who waits for each answer, so that what is in force can be told from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sharegroup.errors import ErrorCode
from sharegroup.protocol.request_rows import (
    ALTER_CONFIGS,
    ALTER_OFFSETS,
    DELETE_GROUP,
    DELETE_OFFSETS,
    ShareGroupRequest,
    StartOffset,
    TopicMetadata,
)
from sharegroup.protocol.response_rows import ShareGroupResponse, decode_response
from sharegroup.testkit.simulation.kafka_log import LogRecord
from sharegroup.testkit.simulation.log_clients import RowSender, RowTail
from sharegroup.testkit.simulation.world import GROUP_REQUESTS, RESPONSES, World

OnAnswer = Callable[[ShareGroupResponse], None]
_RESETS = ("earliest", "latest", "by_duration:PT10M")


class Administrator:
    """Alters and deletes one group's offsets and configs, at random."""

    def __init__(self, world: World, group_id: str) -> None:
        self._world, self._group_id, self._judge = world, group_id, world.judge
        self._random = world.random(f"admin {group_id}")
        self._numbers = itertools.count(1)
        self._sender = RowSender(world.clock, world.kafka, world.weather)
        self._tail = RowTail(world.clock, world.kafka, world.weather, RESPONSES, self._on_row)
        self._waiting: tuple[str, OnAnswer] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it waits for an answer."""
        return self._waiting is not None

    def set_configs(self, configs: dict[str, str | None], then: Callable[[bool], None] = lambda ok: None) -> None:
        """Set configs; `then` hears whether that was answered OK."""
        change = self._judge.alters_configs(self._group_id, configs)
        self._world.trace.add("admin", f"{self._group_id}: sets {configs}")

        def answered(response: ShareGroupResponse) -> None:
            if response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR:
                change.answered_ms, change.ok = self._world.clock.now_ms, not response.error_code
            self._world.trace.add("admin", f"{self._group_id}: answered {response.error_code} to {configs}")
            then(not response.error_code)

        self._ask(ShareGroupRequest(ALTER_CONFIGS, "", self._group_id, configs=configs), answered)

    def set_any_config(self) -> None:
        """One of the configs that may change at any time."""
        name, values = self._random.choice(
            (
                ("share.auto.offset.reset", _RESETS),
                ("share.record.lock.duration.ms", ("15000", "30000", None)),
                ("share.delivery.count.limit", ("2", "4", None)),
                ("share.isolation.level", ("read_committed", "read_uncommitted")),
                ("share.renew.acknowledge.enable", ("true", "false")),
            )
        )
        self.set_configs({name: self._random.choice(values)})

    def alter_offsets(self, topic: str) -> None:
        """Set the start offsets of some of a topic's partitions; a group with members refuses."""
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
            self._reset(ShareGroupRequest(ALTER_OFFSETS, "", self._group_id, topics=topics, offsets=offsets))

    def delete_offsets(self, topic: str) -> None:
        """Delete what the group has of a topic."""
        self._reset(ShareGroupRequest(DELETE_OFFSETS, "", self._group_id, topic_names=(topic,)))

    def delete_group(self) -> None:
        self._reset(ShareGroupRequest(DELETE_GROUP, "", self._group_id))

    def _reset(self, request: ShareGroupRequest) -> None:
        """What the judge knows of the group's share-partitions begins anew, or may do so."""
        self._world.trace.add("admin", f"{self._group_id}: {request.type} {[*request.offsets, *request.topic_names]}")
        self._judge.resets(self._group_id)

        def answered(response: ShareGroupResponse) -> None:
            self._world.trace.add("admin", f"{self._group_id}: answered {response.error_code} to {request.type}")
            is_known = response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
            self._judge.reset_answered(self._group_id, None, not response.error_code if is_known else None)

        self._ask(request, answered)

    def _ask(self, request: ShareGroupRequest, on_answer: OnAnswer) -> None:
        request_id = f"admin-{self._group_id}-{next(self._numbers)}"
        self._waiting = request_id, on_answer
        sent = request._replace(id=request_id, reply_to=f"admin-{self._group_id}")
        self._sender.send(GROUP_REQUESTS, sent.kafka_key, sent.encode())

    def _on_row(self, append_ms: int, record: LogRecord) -> None:
        if record.key != f"admin-{self._group_id}".encode() or self._waiting is None:
            return
        response = decode_response(record.value)
        if isinstance(response, ShareGroupResponse) and response.id == self._waiting[0]:
            on_answer, self._waiting = self._waiting[1], None
            on_answer(response)
