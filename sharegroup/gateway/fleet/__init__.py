"""The fleet, that is, all gateways of one cluster, and the broker addresses that each client receives from them."""
