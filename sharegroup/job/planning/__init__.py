"""Plans which rows the source of the share_partition query sends in the next micro-batch."""
