"""Handlers of requests that describe, list and alter configs."""
