"""The parts of the job that do not use Spark: they plan micro-batches and commit them."""
