"""Metrics, and the HTTP server that exposes them to Prometheus."""
