"""The offset JSON of the `kafka_log_offsets` source: its position, and the rows of its last batch.

Spark stores an offset for each micro-batch, and writes the newest one again with every batch that has only requests.
An offset therefore contains changes, not the whole state:

    rows        the rows of the batch that ends at this offset. The states of the share-partitions that it loads are
                not included; they are read from version `state_version` of `share_group_state`
    position    what a restarted process cannot read elsewhere. This is the version of `share_partitions` up to which
                all rows were processed, and which of these rows the operator does not manage (`waiting`, `gone`)

The position has no log offsets or configs; a restarted process sends them again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

from sharegroup.errors import ShareGroupError
from sharegroup.protocol.json_text import from_json, pack_text, to_json, unpack_json

#: The version of a table before anything was read from it.
NOTHING_READ = -1
#: The number of the offset JSON's format.
FORMAT = 1
#: A list is compressed if its JSON has more characters than this. Soon after an offset with large rows, the source
#: returns an offset without rows.
_LARGE = 2_000


class OlderFormatError(ShareGroupError):
    """The checkpoint was written by a version of this project with another format of the offset JSON."""


class SourceRow(NamedTuple):
    """A row of the batch: its kind and body as in `core.operators.rows`, and the operator keys that receive it.

    The body is a JSON value. A row of kind `load` lacks the states of its share-partitions; `batch_rows` adds them.
    """

    kind: str
    body: Any
    shard_keys: tuple[str, ...]


@dataclass(frozen=True)
class SourceOffset:
    """An offset of the source `kafka_log_offsets`.

    Attributes:
        seq: the number of the offset; the next one is higher by 1.
        shards: `operator.shards` when the offset was made. A start with another number discards the checkpoint.
        partitions_version: the version of `share_partitions` that was read.
        state_version: the version of `share_group_state` from which the rows' states are read.
        waiting: the share-partitions whose rows were read, but that are not managed yet. `waiting_key` returns the text
            that stands for a row.
        gone: the ids of deleted topics.
        clock_ms: the brokers' time when the source last sent tick rows.
        rows: the rows of the batch that ends at this offset.
    """

    seq: int = 0
    shards: int = 0
    partitions_version: int = NOTHING_READ
    state_version: int = NOTHING_READ
    waiting: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    clock_ms: int = 0
    rows: tuple[SourceRow, ...] = ()

    @cached_property
    def is_large(self) -> bool:
        """Whether the rows are too large to be written again with each batch.

        If so, the source returns the next offset even if nothing has changed. That offset then has no rows.
        """
        return len(to_json(self.rows)) > _LARGE

    def to_json(self) -> dict[str, Any]:
        """Return the dict that Spark writes to its offset log."""
        return {
            "format": FORMAT,
            "seq": self.seq,
            "shards": self.shards,
            "partitions_version": self.partitions_version,
            "state_version": self.state_version,
            "waiting": pack(self.waiting),
            "gone": pack(self.gone),
            "clock_ms": self.clock_ms,
            "rows": pack(self.rows),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Decode an offset. Raises OlderFormatError if its format is not `FORMAT`."""
        values = dict(row)
        if values.pop("format", None) != FORMAT:
            raise OlderFormatError(
                "the checkpoint of the query share_partition was written by another version of this job: remove its "
                "directory (share_partition below checkpoint.path), and the job recovers from the tables"
            )
        waiting, gone = tuple(unpack(values.pop("waiting"))), tuple(unpack(values.pop("gone")))
        rows = tuple(SourceRow(kind, body, tuple(keys)) for kind, body, keys in unpack(values.pop("rows")))
        return cls(**values, waiting=waiting, gone=gone, rows=rows)


def pack(values: Any) -> Any:
    """Return a list or tuple as an offset contains it: as a JSON list, or as one compressed text if it is long."""
    text = to_json(values)
    return from_json(text) if len(text) <= _LARGE else pack_text(text)


def unpack(packed: Any) -> Any:
    """Return the list that `pack` encoded."""
    return unpack_json(packed) if isinstance(packed, str) else packed
