"""The groups that are not served because the state of a share-partition is missing.

The table `share_partitions` lists a share-partition as `initialized` only after `share_group_state` durably holds its
first state. If the state for its current epoch is missing, the two tables are inconsistent: one of them was restored or
lost rows. Starting the share-partition by `share.auto.offset.reset` would deliver finished records again, or skip some.
Its group is therefore stopped until an administrator decides. All other groups are served.
"""

import logging
from collections.abc import Iterable

from sharegroup.job.knowledge.source_state import SourceState
from sharegroup.job.planning.batch_rows import States, is_current
from sharegroup.log_fields import LogFields
from sharegroup.storage.following.share_partition_row import SharePartitionRow

logger = logging.getLogger(__name__)


class StoppedGroups:
    """The stopped groups: those that are not served because a durable state is missing.

    They are kept only in memory, because a new process finds them again.
    """

    def __init__(self) -> None:
        self._missing: dict[str, SharePartitionRow] = {}

    def get_stopped(self, known: SourceState) -> set[str]:
        """Return the ids of the groups that are still stopped.

        A group is served again, which is logged, if the row of its share-partition without a state has changed.
        """
        for group_id, row in list(self._missing.items()):
            if known.listing.get(row.key) != row:
                del self._missing[group_id]
                logger.warning(
                    "group %(group)s is served again because %(detail)s",
                    LogFields(group=group_id, detail=_changed(row)),
                )
        return set(self._missing)

    def stop_groups_without_state(self, rows: Iterable[SharePartitionRow], states: States) -> set[str]:
        """Stop the group of each initialized share-partition in `rows` that has no state; return the group ids.

        `states` has the durable states of the share-partitions. A state with an older state epoch does not count.
        """
        found = set()
        for row in rows:
            if row.initializing or row.deleting or is_current(states.get(row.key), row.state_epoch):
                continue
            if row.key.group_id not in found:
                logger.error(
                    "group %(group)s is stopped: %(error)s", LogFields(group=row.key.group_id, error=_cause(row))
                )
            found.add(row.key.group_id)
            self._missing[row.key.group_id] = row
        return found


def _changed(row: SharePartitionRow) -> str:
    return f"the row of share-partition {row.key.topic}-{row.key.partition} in share_partitions has changed"


def _cause(row: SharePartitionRow) -> str:
    return (
        f"share-partition {row.key.topic}-{row.key.partition} is initialized in share_partitions (state epoch "
        f"{row.state_epoch}), but share_group_state has no state of that epoch: one of the two tables was restored or "
        "lost rows. Restore both from the same moment and restart the job. To give up the state, stop the group's "
        "members and set the offsets of the topic (sharegroup share-groups --reset-offsets)"
    )
