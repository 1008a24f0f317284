"""The interface between a member's threads and Kafka."""

from collections.abc import Sequence
from typing import Protocol

from sharegroup.member.member_logic import Request
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import TopicMetadata


class Channel(Protocol):
    """Sends a member's requests to Kafka and reads its responses (implemented by `row_channel.RowChannel`).

    Any thread may call `send`; only the member's own thread calls the other methods. Methods raise KafkaError if Kafka
    is unavailable.
    """

    def open(self) -> bool:
        """Begin to read responses; return False if the topic of responses does not exist yet."""

    def poll(self, timeout_ms: int) -> list[Response]:
        """Return responses to this member, waiting up to `timeout_ms` if there are none."""

    def send(self, requests: Sequence[Request], wait: bool = False) -> None:
        """Produce rows; with `wait` they are durable on return."""

    def brokers_ahead_ms(self) -> int:
        """Return how far the brokers' clocks are ahead of this machine's steady clock, measured by `send`."""

    def topic_names(self) -> set[str]:
        """Return the existing topics that this client may describe."""

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Return the ids and partition counts of the named topics; a topic that does not exist is left out."""

    def close(self) -> None:
        """Close the connections; `send` then raises KafkaError."""
