"""Start offsets as the committed offsets of an ordinary consumer group: what is committed, and when."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from sharegroup.job.cells.offset_mirror import MirrorThread, OffsetMirror
from sharegroup.storage.reading.offsets import SharePartitionOffset

KEY = "consumer_group_offset_mirror"


class World:
    """The source and the target of a mirror; `refused` has the partitions that Kafka rejects."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, Any]] = {"": {KEY: ""}, "g": {KEY: "lag-of-g"}, "h": {KEY: ""}}
        self.offsets: dict[str, dict[int, int]] = {"g": {0: 5, 1: -1}, "h": {0: 7}}
        self.refused: set[int] = set()
        self.asked: list[list[str]] = []
        self.commits: list[tuple[str, dict[tuple[str, int], int]]] = []
        self.fails = 0
        self.looked = threading.Semaphore(0)
        self.mirror = OffsetMirror(lambda: self.configs, self._read, self)

    def _read(self, group_ids: Collection[str]) -> dict[str, list[SharePartitionOffset]]:
        self.asked.append(list(group_ids))
        return {
            group_id: [
                SharePartitionOffset("t", "id", p, start, 1, 0, 1) for p, start in self.offsets[group_id].items()
            ]
            for group_id in group_ids
        }

    def commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        self.looked.release()
        if self.fails:
            self.fails -= 1
            raise KafkaConnectionError("away")
        self.commits.append((group_id, dict(offsets)))
        return {where: "UnknownMemberIdError" for where in offsets if where[1] in self.refused}


def test_moved_offsets_are_committed_once() -> None:
    world = World()
    world.mirror.mirror_offsets()
    world.mirror.mirror_offsets()
    assert world.asked == [["g"], ["g"]]
    assert world.commits == [("lag-of-g", {("t", 0): 5})]
    world.offsets["g"] = {0: 5, 1: 3}
    world.mirror.mirror_offsets()
    assert world.commits[1:] == [("lag-of-g", {("t", 1): 3})]


def test_nothing_is_read_while_no_group_has_a_mirror() -> None:
    world = World()
    world.configs["g"][KEY] = ""
    world.mirror.mirror_offsets()
    assert (world.asked, world.commits) == ([], [])


def test_another_mirror_gets_everything() -> None:
    world = World()
    world.mirror.mirror_offsets()
    world.configs["g"][KEY] = "other"
    world.mirror.mirror_offsets()
    assert world.commits[1:] == [("other", {("t", 0): 5})]


def test_rejected_offsets_are_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.refused = {0}
    world.mirror.mirror_offsets()
    world.mirror.mirror_offsets()
    assert len(world.commits) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "group g: cannot commit offsets to consumer group lag-of-g: UnknownMemberIdError"
    ]
    world.refused = set()
    world.mirror.mirror_offsets()
    world.mirror.mirror_offsets()
    assert len(world.commits) == 3


def test_the_thread_continues_after_a_failure_and_logs_it_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.fails = 2
    thread = MirrorThread(world.mirror, interval_s=0.001)
    thread.start()
    for _ in range(3):
        assert world.looked.acquire(timeout=60)
    thread.close(60)
    assert world.commits == [("lag-of-g", {("t", 0): 5})]
    begin, end = caplog.messages
    assert begin == "cannot mirror start offsets; retrying: KafkaConnectionError: away"
    assert end.startswith("start offsets are mirrored again after ")


def test_a_thread_that_was_not_started_is_closed() -> None:
    MirrorThread(World().mirror).close(60)
