"""Clients of the brokers: producers and consumers of rows, asyncio connections, and the admin client."""
