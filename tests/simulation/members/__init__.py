"""Members that use rows directly, or the member's own loop."""
