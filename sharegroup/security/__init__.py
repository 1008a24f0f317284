"""Who may connect to the gateway, and what they may do: TLS, SASL and an access control list. All off by default."""

from sharegroup.security.security import Security

__all__ = ["Security"]
