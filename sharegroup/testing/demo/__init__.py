"""The display and the processes of `make demo` (jobs/demo.py)."""
