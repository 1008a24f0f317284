"""The writer of the tables: Delta commits and the fence against earlier leaders."""
