"""Reads record batches from the brokers, caches them, and selects the parts that members receive."""
