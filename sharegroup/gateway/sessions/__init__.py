"""Share sessions, with the records that their members hold, wait for and have read ahead."""
