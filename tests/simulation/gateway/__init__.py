"""Gateways in virtual time."""
