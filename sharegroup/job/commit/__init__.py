"""The steps in which a micro-batch becomes durable."""
