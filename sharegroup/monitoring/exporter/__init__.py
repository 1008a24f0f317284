"""An HTTP server for the metrics and health checks of a process. It runs on a thread of its own."""
