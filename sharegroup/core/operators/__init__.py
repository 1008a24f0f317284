"""PURE. The stateful operators without Spark: rows of a micro-batch and the state in, effects and the state out.

One module for each operator. They couple the pure machines (which do not know each other) and the rows of the request
topics; `sharegroup.spark` only carries rows to them and effects away. No clock, no I/O: `now_ms` is the batch's
timestamp.
"""
