"""The time up to which requests have been read, deadlines, and the signals that start a micro-batch."""
