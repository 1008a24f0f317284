"""A member's way to Kafka, as its threads see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharegroup.member.member_logic import Request
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import TopicMetadata


class Channel(Protocol):
    """`row_channel.RowChannel`, or a test's. `send` is for any thread, everything else for the member's own. What Kafka
    does not do raises KafkaError."""

    def open(self) -> bool:
        """Begin to read responses; False while there is nothing to read them from."""

    def poll(self, timeout_ms: int) -> list[Response]:
        """Responses to this member; waits for so long if there are none."""

    def send(self, requests: Sequence[Request], wait: bool = False) -> None:
        """Produce rows; with `wait` they are durable afterwards."""

    def brokers_ahead_ms(self) -> int:
        """How far the brokers' clocks are ahead of this machine's steady clock, as the appends of `send` tell it."""

    def topic_names(self) -> set[str]:
        """The topics that there are, and that may be seen."""

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Ids and partition counts of those of these topics that exist."""

    def close(self) -> None:
        """Close the connections; `send` raises KafkaError from then on."""
