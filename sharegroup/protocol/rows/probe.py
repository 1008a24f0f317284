"""The probe: a row that the job appends to its own request topics, to detect when it is ready. Operators ignore it.

Each query of the job appends a probe when it starts. The query is ready when the micro-batch with the probe has
finished: the Python workers are running, and the tables are writable (docs/rows.md).
"""

PROBE_TYPE = "probe"
#: The text of the row, which is always the same.
PROBE = f'{{"type":"{PROBE_TYPE}"}}'
