"""The five steps of a commit, the writer of Delta tables with its fence, and their upkeep; delta-rs, no Spark."""
