"""Leadership: which process may write a set of tables."""
