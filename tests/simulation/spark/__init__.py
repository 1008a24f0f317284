"""Spark members in virtual time."""
