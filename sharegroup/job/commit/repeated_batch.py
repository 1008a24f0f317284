"""Checks whether a batch that runs again has the same effects as its first run, which was committed.

Spark runs a batch again from the same offsets, so the batch normally has the same effects. It has other effects if
retention has deleted rows of the request topic since the first run, or if the job was started with another
configuration. Steps 2 and 3 skip the batch, because the tables have it already. The operator's state, however, would
come from the second run. From then on, the tables and the state would differ.

Each commit of the first table therefore records an entry of its batch. The entry contains a digest of each kind of
effect, the positions of the requests that were read, and the rules (configured values that the effects depend on). A
repeated batch is compared with this entry before it has any effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sharegroup.config import Config
from sharegroup.errors import ShareGroupError
from sharegroup.protocol.json_text import to_json

if TYPE_CHECKING:
    from sharegroup.job.commit.commit_steps import Batch

#: The key under which a commit's info contains the entry of its batch.
ENTRY = "batch"
_DIGEST_BYTES = 8


class RepeatedBatchError(ShareGroupError):
    """A batch ran again, and its effects differ from those in the tables. The checkpoint must be dropped."""


def effect_rules(config: Config) -> dict[str, int]:
    """Return the configured values that the effects of a batch depend on, by key."""
    rules = config.coordinator
    return {
        "share.coordinator.snapshot.update.records.per.snapshot": rules.snapshot_update_records_per_snapshot,
        "share.coordinator.cold.partition.snapshot.interval.ms": rules.cold_partition_snapshot_interval_ms,
    }


def batch_entry(batch: Batch, rules: Mapping[str, int]) -> dict[str, Any]:
    """Return the entry to record for a batch, as JSON values. Runs with the same effects have the same entry."""
    parts: dict[str, Any] = {**batch.tables, "responses": batch.responses, "requests": batch.requests}
    return {
        "digests": {name: _digest(rows) for name, rows in sorted(parts.items()) if rows},
        "positions": {str(partition): offset for partition, offset in sorted(batch.positions.items())},
        "rules": dict(rules),
    }


def reject_other_effects(recorded: Mapping[str, Any], entry: Mapping[str, Any], batch_id: int) -> None:
    """Raise RepeatedBatchError if a repeated batch has other effects than its first run; the error names them.

    `recorded` is the entry of the first run, and `entry` that of the repeated one. Different rules alone raise no
    error. They matter only if they lead to different effects.
    """
    effects = [*_differing(recorded, entry, "digests"), *_changes(recorded, entry, "positions")]
    if effects:
        rules = _changes(recorded, entry, "rules")
        cause = f"; changed configuration: {', '.join(rules)}" if rules else ""
        raise RepeatedBatchError(
            f"batch {batch_id} ran again, and its effects differ from those of its first run: "
            f"{', '.join(effects)}{cause}"
        )


def _digest(rows: Any) -> str:
    return hashlib.blake2b(to_json(rows).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _differing(recorded: Mapping[str, Any], entry: Mapping[str, Any], part: str) -> list[str]:
    before, after = recorded[part], entry[part]
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _changes(recorded: Mapping[str, Any], entry: Mapping[str, Any], part: str) -> list[str]:
    label = "position of request partition " if part == "positions" else ""
    return [
        f"{label}{name} ({recorded[part].get(name)} before, {entry[part].get(name)} now)"
        for name in _differing(recorded, entry, part)
    ]
