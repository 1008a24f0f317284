"""A fixed script of a share group's life, and the final tables that it must lead to however often the job dies.

Each step is sent as rows that are known beforehand, so that it does not matter whether the job is up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from sharegroup.protocol.rows.response_rows import encode_response
from sharegroup.storage.reading.state_table import read_states
from sharegroup.types import AcknowledgeType
from tests.harness.raw_member import RawMember, Request, RequestClient
from tests.integration.whole_log import whole_delivery_log

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
PARTITIONS = 2
RECORDS = 40


class Workload:
    """Members first, second and third of one group, on a topic with `PARTITIONS` times `RECORDS` records."""

    def __init__(self, client: RequestClient, group_id: str, topic: str) -> None:
        self.client, self.group_id, self.topic = client, group_id, topic
        self.first, self.second, self.third = (RawMember(client, group_id, f"m{n}") for n in (1, 2, 3))
        self._sent: list[str] = []
        self._steps: dict[str, Callable[[], list[Request]]] = {
            "acknowledge": lambda: [
                self.first.acknowledge_request(topic, 0, [(0, 4, ACCEPT), (5, 9, RELEASE), (10, 11, REJECT)])
            ],
            "redeliver": lambda: [self.second.fetch_request(topic, 0, 15)],
            "unacquire": lambda: [self.second.unacquire_request(topic, 0, [(25, 29)])],
            "leave and join": lambda: [
                self.first.heartbeat_request(None, -1),
                self.third.heartbeat_request({topic: PARTITIONS}, 0),
            ],
            "accept": lambda: [self.second.acknowledge_request(topic, 0, [(5, 9, ACCEPT), (20, 24, ACCEPT)])],
            "drain": lambda: [self.second.fetch_request(topic, p, 100) for p in range(PARTITIONS)],
        }

    @property
    def steps(self) -> tuple[str, ...]:
        """Their names, in their order."""
        return tuple(self._steps)

    def set_up(self) -> None:
        """Two members join, and the first one holds records of both partitions. Needs a running job."""
        for member in (self.first, self.second):
            member.join({self.topic: PARTITIONS})
        assert [tuple(r) for r in self.first.fetch(self.topic, 0, 20).acquired] == [(0, 19, 1)]
        assert [tuple(r) for r in self.first.fetch(self.topic, 1, 10).acquired] == [(0, 9, 1)]

    def send(self, step: str) -> None:
        """Send a step's rows."""
        requests = self._steps[step]()
        self.client.send_all(requests)
        self._sent += [request.id for request in requests]

    def await_step(self) -> None:
        """Await the responses to what was sent."""
        for request_id in self._sent:
            self.client.await_response(request_id)

    def answers(self) -> list[Any]:
        """What the steps were answered, without what differs from run to run."""
        self.await_step()
        return [
            self._plain(
                encode_response(self.client.responses[request_id]),
                {"id", "reply_to", "lock_deadline_ms", "session_deadline_ms"},
            )
            for request_id in self._sent
        ]

    def final_tables(self, tables_path: Path) -> Mapping[str, Any]:
        """The group's final tables, without times, batch ids, and epochs that count how requests fell into batches."""
        stamps = {"day", "time", "batch_id", "leader_epoch", "lock_deadline", "group_epoch", "assignment_epoch"}
        whole_delivery_log(tables_path)
        tables = {
            name: sorted(
                map(repr, (self._plain(row, stamps | {"member_epoch"}) for row in self._rows(tables_path, name)))
            )
            for name in ("delivery_log", "share_groups", "share_group_members", "share_partitions")
        }
        states = read_states(DeltaTable(str(tables_path / "share_group_state")))
        folded = {
            key.partition: (
                state.header.state_epoch,
                state.header.start_offset,
                state.header.delivery_complete_count,
                [batch._replace(lock_deadline_ms=None) for batch in state.state_batches],
            )
            for key, state in states.items()
            if key.group_id == self.group_id
        }
        return {**tables, "share_group_state": folded}

    def _rows(self, tables_path: Path, name: str) -> list[dict[str, Any]]:
        rows = DeltaTable(str(tables_path / name)).to_pyarrow_table().to_pylist()
        return [row for row in rows if row["group_id"] == self.group_id]

    def _plain(self, row: Mapping[str, Any], without: set[str]) -> Any:
        names = {self.group_id: "the group", self.topic: "the topic", self.client.topic_id(self.topic): "the topic id"}

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {names.get(key, key): plain(item) for key, item in value.items() if key not in without}
            if isinstance(value, (list, tuple)):
                return [plain(item) for item in value]
            return names.get(value, value) if isinstance(value, str) else value

        return plain(dict(row))
