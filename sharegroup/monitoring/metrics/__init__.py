"""Metrics of the job, the gateway and the members: declarations and current values.

Pure: no clock, no threads, no HTTP. Callers on several threads must hold a lock. `exporter` serves the values.
"""
