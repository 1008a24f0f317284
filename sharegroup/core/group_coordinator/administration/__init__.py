"""Administrators' requests: offsets, configs, members and the deletion of groups."""
