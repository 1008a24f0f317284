"""Asyncio connections to the brokers, with login, and the job's client for log offsets."""
