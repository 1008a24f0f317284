"""The stateful operators without Spark: input rows and state in, effects and state out.

Each operator connects the pure machines, which are independent of each other, to the rows of the request topics.
`sharegroup.spark` passes the rows in and carries the effects out. Operators have no clock and no I/O; `now_ms` is the
timestamp of the micro-batch.
"""
