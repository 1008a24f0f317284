"""The operator of groups: one key is one group."""
