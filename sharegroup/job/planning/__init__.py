"""Plan the rows of the next micro-batch."""
