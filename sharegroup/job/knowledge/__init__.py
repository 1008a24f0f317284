"""What the source of the share_partition query keeps in memory between two polls, and its offset."""
