"""Groups as the gateway sees them: stored share groups, their configs, and groups of the upstream cluster."""
