"""Handlers that describe and alter configs."""
