-- The records that define the current state of each share-partition: its row of the base and the records after a base.
--
-- A row of the base counts as the snapshot that it replaces, at the position of the newest record that it includes;
-- records up to that position no longer count. Any base can therefore be combined with all records after the end of the
-- same or an earlier base. That end is inserted here as numbers, with which Delta skips files of several days.
SELECT
    group_id,
    topic,
    topic_id,
    partition,
    'ShareSnapshot' AS record_type,
    snapshot_epoch,
    state_epoch,
    leader_epoch,
    start_offset,
    end_offset,
    delivery_complete_count,
    state_batches,
    batch_id,
    time
FROM {base}
UNION ALL
SELECT
    group_id,
    topic,
    topic_id,
    partition,
    record_type,
    snapshot_epoch,
    state_epoch,
    leader_epoch,
    start_offset,
    end_offset,
    delivery_complete_count,
    state_batches,
    batch_id,
    time
FROM {state}
WHERE leader_epoch > {leader_epoch} OR (leader_epoch = {leader_epoch} AND batch_id > {batch_id})
