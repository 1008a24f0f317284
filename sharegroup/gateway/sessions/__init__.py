"""Share sessions of members: the records that each member holds, and those buffered for it (read-ahead)."""
