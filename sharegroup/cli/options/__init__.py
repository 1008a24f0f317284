"""Options that several commands share, and the output of commands."""
