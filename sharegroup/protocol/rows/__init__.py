"""The rows of the topics `__share_partition_requests`, `__share_group_requests` and `__share_group_responses`."""
