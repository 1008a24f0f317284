"""The offset JSON of the `kafka_log_offsets` source: where it is, and all that its last batch says.

Spark keeps an offset for each micro-batch, and writes the newest one again with every batch that brings only requests.
So an offset holds what changed, never the world:

    rows        of the batch that ends here; the states of what it loads are read at `state_version`
    position    what a process that starts anew cannot know otherwise: up to which version of `share_partitions` all
                is said, and which of its rows are not led all the same (`waiting`, `gone`)

Log offsets and configs are in no position: a process that starts anew says them once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from sharegroup.errors import ShareGroupError
from sharegroup.protocol.json_text import from_json, pack_text, to_json, unpack_json

#: The version of a table before anything was read from it.
NOTHING_READ = -1
#: Of the offset JSON.
FORMAT = 1
#: A list whose JSON is longer is packed, and is not to stand in the newest offset for long.
_LARGE = 2_000


class OlderFormatError(ShareGroupError):
    """The checkpoint was written by a version of this project that kept another JSON."""


class SourceRow(NamedTuple):
    """A row of the batch: its kind and body as `core.operators.rows` has them, and the operator keys it is for.

    The body is as JSON gives it. A `load` lacks what its states say: see `batch_rows`.
    """

    kind: str
    body: Any
    shard_keys: tuple[str, ...]


@dataclass(frozen=True)
class SourceOffset:
    """`waiting` names rows of `share_partitions` that are not led yet (`waiting_key`), `gone` the ids of topics that
    are no more. `clock_ms` is the time at which keys were ticked last."""

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
        """Whether its rows are too many to be written with each batch that follows."""
        return len(_text(self.rows)) > _LARGE

    def to_json(self) -> dict[str, Any]:
        """The dict that Spark writes into its offset log."""
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
    def from_json(cls, row: Mapping[str, Any]) -> SourceOffset:
        """The inverse of `to_json`. Raises OlderFormatError."""
        values = dict(row)
        if values.pop("format", None) != FORMAT:
            raise OlderFormatError(
                "the checkpoint of the query share_partition was written by another version of this job: remove its "
                "directory (share_partition below checkpoint.path), and the job comes back from the tables"
            )
        waiting, gone = tuple(unpack(values.pop("waiting"))), tuple(unpack(values.pop("gone")))
        rows = tuple(SourceRow(kind, body, tuple(keys)) for kind, body, keys in unpack(values.pop("rows")))
        return cls(**values, waiting=waiting, gone=gone, rows=rows)


def pack(values: Any) -> Any:
    """A list or tuple as an offset holds it: as it is, or as one text when it is long."""
    text = _text(values)
    return from_json(text) if len(text) <= _LARGE else pack_text(text)


def unpack(packed: Any) -> Any:
    """The inverse of `pack`."""
    return unpack_json(packed) if isinstance(packed, str) else packed


def _text(values: Any) -> str:
    return to_json(values)
