"""HTTP server, on its own thread, for the metrics and health checks of a process."""
