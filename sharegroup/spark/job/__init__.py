"""The long-running job: its queries, their start, supervision and end."""
