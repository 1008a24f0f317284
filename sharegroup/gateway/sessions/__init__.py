"""Share sessions and what their members hold, wait for and read ahead."""
