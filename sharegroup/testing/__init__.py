"""Tools for tests of programs that use share groups: a broker, a job and a gateway as child processes, tables in
memory, the audit of deliveries, sample data."""
