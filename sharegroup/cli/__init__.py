"""The command `sharegroup`."""
