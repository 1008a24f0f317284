/* What happened to the records of each group, by outcome and number of deliveries.

       sharegroup sql data/tables "$(cat examples/outcomes.sql)"

   It also runs in Spark, after sharegroup.spark.views.create_views(spark, "data/tables"). */
SELECT
    group_id,
    topic,
    to_state AS outcome,
    cause,
    delivery_count AS deliveries,
    sum(last_offset - first_offset + 1) AS records,
    max(time) AS latest
FROM delivery_log
WHERE to_state IN ('ACKNOWLEDGED', 'ARCHIVED')
GROUP BY group_id, topic, to_state, cause, delivery_count
ORDER BY group_id, topic, outcome, cause, deliveries
