"""Metrics of the job, the gateway and the members: declarations and current values.

This package uses no clock, threads or HTTP. Callers on several threads must hold a lock. `exporter` serves the values.
"""
