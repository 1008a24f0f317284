"""The part of a source poll that reads the tables: changed rows of `share_partitions`, and configs."""

from sharegroup.job.planning.source_poll import SourcePoll
from sharegroup.job.planning.source_tables import GroupConfigSource, SourceTables
from sharegroup.storage.following.share_partition_row import SharePartitionChanges
from sharegroup.storage.schemas import SHARE_PARTITIONS


class TableChanges:
    """Reads what has changed in the tables since the last poll, and applies it to the source's state and to the poll.

    These are the changed rows of `share_partitions`, and the configs of the groups.
    """

    def __init__(self, tables: SourceTables, configs: GroupConfigSource) -> None:
        self._tables, self._configs = tables, configs

    def poll(self, poll: SourcePoll) -> int:
        """Apply the changes; return the version of `share_partitions` that was read.

        The configs are read after the share-partitions. If configs may be sent to a shard, they are read from the
        newest version of their table. An older version may lack configs that the shard has already received in a
        `configure` request.
        """
        known = poll.known
        version = self._tables.newest_version(SHARE_PARTITIONS.name)
        before = known.offset.partitions_version
        is_fresh = version != before or bool(poll.pending or known.waiting) or known.configs.is_unread
        if version != before:
            _apply_rows(poll, self._tables.changes(before, version))
        poll.pending.update((row.key, row) for row in known.listing.manageable_rows(known.waiting))
        configs = self._configs.in_force(poll.now_ms, is_fresh)
        if not is_fresh and not known.configs.is_current(configs):
            configs = self._configs.in_force(poll.now_ms, fresh=True)
        poll.reconfigured.update(known.configure(configs))
        return version


def _apply_rows(poll: SourcePoll, changes: SharePartitionChanges) -> None:
    known, deletions = poll.known, []
    for row in changes.listed:
        before = known.listing.get(row.key)
        known.put_row(row)
        if not row.deleting:
            if not known.managed.has_epoch_of(row):
                poll.pending[row.key] = row
                poll.added.add(row.key)
            continue
        known.managed.remove(row.key)
        poll.pending.pop(row.key, None)
        if before is None or not before.deleting or before.state_epoch != row.state_epoch:
            deletions.append(row)
    for key in changes.removed:
        known.remove_row(key)
        poll.pending.pop(key, None)
        if known.managed.remove(key):
            poll.removed.add(key)
    poll.batch.add_deletions(known.managed, deletions)
