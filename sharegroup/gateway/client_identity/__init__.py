"""Logins and rights of clients that use their own identity at the brokers (`gateway.upstream.identity: client`)."""
