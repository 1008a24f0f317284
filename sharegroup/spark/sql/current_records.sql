-- The records that say how each share-partition stands: its row of the base, and what was written after a base.
--
-- A row of the base counts like the snapshot that it stands for, at the place of the newest record that is in it; records
-- up to there count no more. So any base goes with all records after the same or an earlier one's end, given here as
-- numbers, by which Delta passes over files: days of them.
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
