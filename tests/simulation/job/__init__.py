"""The job in virtual time."""
