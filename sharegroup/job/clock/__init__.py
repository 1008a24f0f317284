"""The clock of the requests, deadlines, and the signals that start a micro-batch."""
