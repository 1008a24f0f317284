"""Clients who act at the brokers as themselves (`gateway.upstream.identity: client`): their logins and their rights."""
