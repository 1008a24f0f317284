"""Shows metrics to Prometheus, and to whoever asks whether the process is well: HTTP, in a thread of its own."""
