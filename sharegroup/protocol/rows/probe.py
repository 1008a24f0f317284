"""The probe: a row that the job appends to its own request topics to detect that it is ready. Operators ignore it.

Each query of the job appends a probe when it starts. When the micro-batch that has read the probe is finished, the
Python workers are running, the tables are writable, and the query responds to requests (docs/rows.md).
"""

PROBE_TYPE = "probe"
#: The text of the row, which is always the same.
PROBE = f'{{"type":"{PROBE_TYPE}"}}'
