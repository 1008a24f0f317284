"""The gateways of one cluster: which there are, and whose addresses a client is told."""
