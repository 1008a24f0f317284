"""Simulated brokers and their faults."""
