"""Checks of the invariants, during a run and at its end."""
