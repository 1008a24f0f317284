"""A member of a share group, independent of Spark: membership, fetch requests, held ranges and acknowledgements."""
