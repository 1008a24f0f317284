"""The row by which a starting job finds out that it answers: the operators read it and do nothing else.

A query of the job appends one to its own request topic when it starts. When the micro-batch that has read it is
through, the Python workers run, the tables are writable and requests of others are answered (docs/rows.md).
"""

PROBE_TYPE = "probe"
#: The row, always this text.
PROBE = f'{{"type":"{PROBE_TYPE}"}}'
