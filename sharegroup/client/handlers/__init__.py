"""The handler loop: calls a function for each record, and acknowledges the record according to the call's result."""
