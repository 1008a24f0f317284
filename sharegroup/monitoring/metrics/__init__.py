"""Metrics of the job, the gateway and the members: declarations and current values.

This package uses no clock, threads or HTTP. If several threads use its objects, they must hold a lock. The package
`exporter` serves the values.
"""
