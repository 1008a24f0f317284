"""The operator of share groups; a key is one group."""
