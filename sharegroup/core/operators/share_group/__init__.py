"""The operator of share groups. Its grouping key is one group."""
