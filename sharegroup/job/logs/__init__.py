"""The logs at the brokers: start and end offsets, leaders and topic ids."""
