"""Clients of the brokers for control requests: asyncio connections with login, and the job's client for log offsets."""
