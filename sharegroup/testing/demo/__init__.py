"""What `make demo` (jobs/demo.py) shows, and the processes that it starts."""
