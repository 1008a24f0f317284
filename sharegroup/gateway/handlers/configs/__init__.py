"""Describe and alter the configs of groups."""
