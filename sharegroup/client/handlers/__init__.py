"""The handler loop: calls a function for each record, and acknowledges the record by the result of the call."""
