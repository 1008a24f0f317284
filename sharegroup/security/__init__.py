"""Authentication and authorization of the gateway's clients: TLS, SASL, access control list. Off by default."""

from sharegroup.security.security import Security

__all__ = ["Security"]
