"""The gateways of one cluster, and the addresses that each client is sent."""
