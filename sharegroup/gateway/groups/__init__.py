"""What the gateway knows of groups: stored ones, their configs, and those of the upstream cluster."""
