"""What the tests of this project run: the job with its tables, members that write rows, a cluster, tables in memory."""
