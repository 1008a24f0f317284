"""The data that the source of the share_partition query keeps in memory between two polls, and the source's offset."""
