"""The protocol logic of a share consumer. It has no I/O and no clock; callers pass the time as `now_ms`."""
