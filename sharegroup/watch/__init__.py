"""What the sources plan a batch from: logs' offsets and leaders, topics' identities, clocks and ticks; no Spark."""
