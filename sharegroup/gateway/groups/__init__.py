"""Groups that the gateway reads: stored share groups, their configs, and the groups of the upstream cluster."""
