"""The protocol of a share consumer, without input, output or clock: times come in as `now_ms`."""
