"""Clients of the brokers: rows to and from the three topics, connections on asyncio, and the admin client."""
