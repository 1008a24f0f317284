"""Tools for tests of programs that use share groups: a broker and a gateway as child processes, the audit of
deliveries, sample data."""
