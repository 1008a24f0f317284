"""Share sessions: records that their members hold, wait for, or will fetch next (read-ahead)."""
