"""The job's three row topics: creating them, writing requests, reading responses."""
