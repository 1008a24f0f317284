"""The long-running job: start, supervision and end of its queries."""
