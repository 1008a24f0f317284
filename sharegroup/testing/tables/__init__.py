"""Tables in memory, and checks of the contents of tables."""
