"""The interface through which a member's threads use Kafka."""

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
        """Begin to read responses and return True. Return False if the response topic does not exist yet."""

    def poll(self, timeout_ms: int) -> list[Response]:
        """Return the new responses to this member. If there are none, wait for up to `timeout_ms`."""

    def send(self, requests: Sequence[Request], wait: bool = False) -> None:
        """Produce the requests to the request topics. With `wait`, return only when the brokers have stored them."""

    def brokers_ahead_ms(self) -> int:
        """Return by how many ms the brokers' clocks are ahead of this machine's steady clock.

        The result is estimated from the append times of the rows that `send` has produced.
        """

    def topic_names(self) -> set[str]:
        """Return the existing topics that this client may describe."""

    def topics_metadata(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Return {topic: its id and partition count} for the named topics that exist."""

    def close(self) -> None:
        """Close the connections. From now on, `send` raises KafkaError."""
