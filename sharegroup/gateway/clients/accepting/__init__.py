"""Accept connections, within the limits of addresses and of the process."""
