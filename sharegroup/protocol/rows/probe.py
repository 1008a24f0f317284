"""The probe: a row that the job appends to its own request topics. Operators ignore it.

The job estimates the brokers' time from the append times of probes. Each query also appends probes when it starts. The
query is ready when it has finished a micro-batch with a probe. This shows that the Python workers run and that the
tables are writable (docs/rows.md).
"""

PROBE_TYPE = "probe"
#: The text of the row, which is always the same.
PROBE = f'{{"type":"{PROBE_TYPE}"}}'
