"""A member of a share group, independent of its host: membership, demands, held ranges, acknowledgements. No Spark."""
