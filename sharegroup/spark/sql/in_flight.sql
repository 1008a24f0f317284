-- Every record range in flight: its state, its delivery count and, if it is acquired, its member and lock deadline.
-- Acquired with delivery count 0 is RESERVED for a gateway: its reserver and the end of its lease.
--
-- Records are ordered by (leader_epoch, batch_id). The newest snapshot of a share-partition and the updates after it
-- count. Updates hold only changes, so ranges overlap; for an offset in several ranges the newest range counts:
--
--     snapshot      |aaaaaaaaaa      the ranges' ends cut the offsets into segments, each in one state,
--     update             BBBBBBBB    the newest range over a segment gives its state,
--     update          CCCCC          equal neighbours become one range again,
--     in flight     |aCCCCCBBBBBB    and offsets below the start offset (|) are finished and left out. So are those at
--                                    or above the end offset: they were reserved, and are not any longer.
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
),

newest AS (
    SELECT
        group_id,
        topic,
        topic_id,
        partition,
        position,
        state_batches,
        max_by(start_offset, position) FILTER (WHERE start_offset <> -1)
            OVER (PARTITION BY group_id, topic, topic_id, partition) AS spso,
        max_by(end_offset, position) OVER (PARTITION BY group_id, topic, topic_id, partition) AS speo
    FROM records JOIN snapshots USING (group_id, topic, topic_id, partition)
    WHERE records.snapshot_epoch = snapshots.snapshot.snapshot_epoch AND records.position >= snapshots.snapshot.position
),

batches AS (
    SELECT
        group_id,
        topic,
        topic_id,
        partition,
        position,
        greatest(batch.first_offset, spso) AS first_offset,
        least(batch.last_offset + 1, speo) AS next_offset,
        struct(batch.delivery_state, batch.delivery_count, batch.member_id, batch.lock_deadline) AS value
    FROM newest LATERAL VIEW explode(state_batches) AS batch
    WHERE batch.last_offset >= spso AND batch.first_offset < speo
),

cuts AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY group_id, topic, topic_id, partition ORDER BY offset) AS segment,
        lead(offset) OVER (PARTITION BY group_id, topic, topic_id, partition ORDER BY offset) AS next_offset
    FROM (
        SELECT group_id, topic, topic_id, partition, first_offset AS offset FROM batches
        UNION
        SELECT group_id, topic, topic_id, partition, next_offset FROM batches
    )
),

segments AS (
    SELECT group_id, topic, topic_id, partition, segment, max_by(value, position) AS value
    FROM (
        SELECT
            batches.group_id,
            batches.topic,
            batches.topic_id,
            batches.partition,
            batches.position,
            batches.value,
            explode(sequence(low.segment, high.segment - 1)) AS segment
        FROM batches
        JOIN cuts AS low
            ON batches.group_id = low.group_id AND batches.topic_id = low.topic_id
            AND batches.partition = low.partition AND batches.first_offset = low.offset
        JOIN cuts AS high
            ON batches.group_id = high.group_id AND batches.topic_id = high.topic_id
            AND batches.partition = high.partition AND batches.next_offset = high.offset
    )
    GROUP BY group_id, topic, topic_id, partition, segment
),

neighbours AS (
    SELECT
        *,
        lag(next_offset) OVER by_offset IS DISTINCT FROM offset OR lag(value) OVER by_offset IS DISTINCT FROM value
            AS begins
    FROM segments JOIN cuts USING (group_id, topic, topic_id, partition, segment)
    WINDOW by_offset AS (PARTITION BY group_id, topic, topic_id, partition ORDER BY offset)
),

ranges AS (
    SELECT
        *,
        count_if(begins) OVER (PARTITION BY group_id, topic, topic_id, partition ORDER BY offset) AS range_number
    FROM neighbours
)

SELECT
    group_id,
    topic,
    topic_id,
    partition,
    min(offset) AS first_offset,
    max(next_offset) - 1 AS last_offset,
    CASE first(value).delivery_state
        WHEN 0 THEN 'AVAILABLE'
        WHEN 1 THEN if(first(value).delivery_count = 0, 'RESERVED', 'ACQUIRED')
        WHEN 2 THEN 'ACKNOWLEDGED'
        WHEN 4 THEN 'ARCHIVED'
    END AS state,
    first(value).delivery_count AS delivery_count,
    first(value).member_id AS member_id,
    first(value).lock_deadline AS lock_deadline
FROM ranges
GROUP BY group_id, topic, topic_id, partition, range_number
