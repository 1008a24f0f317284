"""The writer of the tables: Delta commits, the fence that rejects earlier leaders, and recovery after a power loss."""
