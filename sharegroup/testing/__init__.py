"""Tools for tests of programs that use share groups.

They run a broker and a gateway as child processes, audit the deliveries of a group, and create sample data.
"""
