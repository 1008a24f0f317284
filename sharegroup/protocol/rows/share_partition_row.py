"""The base class of rows of `__share_partition_requests`: their first fields, their key and their encoding.

It is the base of all types of rows except renew_leases (`lease_requests`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sharegroup.protocol.json_text import to_json
from sharegroup.protocol.rows.row_fields import MAX_INT32, integer, member_id_of, row_values, text
from sharegroup.types import MAX_TOPIC_NAME_LENGTH

#: {field: default}. A field is left out of a row if it has the default value.
_OMITTED_DEFAULTS = {
    "is_static": False,
    "opened_ms": -1,
    "linger_ms": 0,
    "acquired": (),
    "lock_deadline_ms": -1,
    "reserves": False,
}


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """Fields of all requests for a share-partition.

    - `topic_id`: identifies the topic, even if it was deleted and a new topic was created under its name
    - `member_epoch`: the epoch of the member in the group (-1: not known and not checked). The request is rejected if a
      release_member row with this or a later epoch was processed before.
    - `reply_to`: the key of the response. If it is empty, no response is sent.
    - `incarnation_id`: a unique id of the process that acts as the member, or None if it has no such id. The request is
      rejected if another process has replaced this process.
    """

    type: ClassVar[str]

    id: str
    group_id: str
    topic: str
    topic_id: str
    partition: int
    member_id: str
    member_epoch: int = -1
    reply_to: str = ""
    incarnation_id: str | None = None

    def encode(self) -> bytes:
        """Return the record value, a JSON object."""
        omitted = self._omitted_fields()
        row = {name: value for name, value in row_values(self).items() if name not in omitted}
        if self.incarnation_id is None:
            del row["incarnation_id"]
        return to_json(row).encode()

    @property
    def kafka_key(self) -> bytes:
        """The record key. It names the share-partition, so all rows of a share-partition are in one Kafka partition."""
        return f"{self.group_id}\t{self.topic_id}\t{self.partition}".encode()

    def _omitted_fields(self) -> tuple[str, ...]:
        return tuple(name for name, default in _OMITTED_DEFAULTS.items() if getattr(self, name, default) == default)


def row_header(
    row: Mapping[str, Any], has_member: bool = True
) -> tuple[str, str, str, str, int, str, int, str, str | None]:
    """Return the fields of `PartitionRequest` in order. If `has_member` is False, the member id is empty.

    Raises InvalidFieldError if one of these fields is invalid.
    """
    partition = integer(row, "partition", 0, MAX_INT32)
    return (
        row["id"],
        text(row, "group_id"),
        text(row, "topic", max_length=MAX_TOPIC_NAME_LENGTH),
        text(row, "topic_id"),
        partition,
        member_id_of(row) if has_member else "",
        integer(row, "member_epoch", -1, MAX_INT32, default=-1),
        row["reply_to"],
        None if row.get("incarnation_id") is None else text(row, "incarnation_id"),
    )
