-- The newest offsets of each share-partition: the combined records of share_group_state, without their ranges.
--
-- Records are ordered by (leader_epoch, batch_id): leaders follow each other, and each writes at most one record of a
-- share-partition in a micro-batch. A snapshot replaces earlier records, an update changes the values that are not -1,
-- and a tombstone deletes the share-partition.
WITH records AS (
    SELECT
        *,
        struct(leader_epoch, batch_id) AS position,
        max(struct(leader_epoch, batch_id)) FILTER (WHERE record_type = 'Tombstone')
            OVER (PARTITION BY group_id, topic, topic_id, partition) AS deleted_at
    FROM share_group_state
),

snapshots AS (
    SELECT group_id, topic, topic_id, partition, max(struct(snapshot_epoch, position)) AS snapshot
    FROM records
    WHERE record_type = 'ShareSnapshot' AND (deleted_at IS NULL OR position > deleted_at)
    GROUP BY group_id, topic, topic_id, partition
)

SELECT
    group_id,
    topic,
    topic_id,
    partition,
    max_by(start_offset, position) FILTER (WHERE start_offset <> -1) AS start_offset,
    max_by(end_offset, position) AS end_offset,
    max_by(delivery_complete_count, position) FILTER (WHERE delivery_complete_count <> -1) AS delivery_complete_count,
    max_by(state_epoch, position) FILTER (WHERE state_epoch <> -1) AS state_epoch,
    max(leader_epoch) AS leader_epoch,
    max(snapshot_epoch) AS snapshot_epoch,
    max_by(time, position) AS time
FROM records JOIN snapshots USING (group_id, topic, topic_id, partition)
WHERE records.snapshot_epoch = snapshots.snapshot.snapshot_epoch AND records.position >= snapshots.snapshot.position
GROUP BY group_id, topic, topic_id, partition
