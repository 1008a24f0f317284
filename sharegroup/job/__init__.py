"""The driver of the job without Spark: plans micro-batches and commits them."""
