"""The operator of the group_coordinator query. Its grouping key is the group id."""
