"""Accepts client connections, and enforces the limits per client address and the limits of the process."""
