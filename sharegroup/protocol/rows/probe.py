"""The row with which a starting job detects that it is ready. Operators read it and ignore it.

At its start, a query of the job appends a probe to its own request topic. When the micro-batch that read the probe has
finished, the Python workers run, the tables are writable, and the query responds to requests (docs/rows.md).
"""

PROBE_TYPE = "probe"
#: The row, which is always this text.
PROBE = f'{{"type":"{PROBE_TYPE}"}}'
