"""A share consumer for Python (KIP-932), without Spark: `ShareConsumer` and `AsyncShareConsumer`."""
