"""Accepting connections, within limits per address and the limits of the process."""
