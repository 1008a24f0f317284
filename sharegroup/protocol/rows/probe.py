"""The probe: a row that the job appends to its own request topics. Operators ignore it.

The append times of probes give the job the brokers' time. Each query also appends probes when it starts, and is ready
when a micro-batch with a probe has finished: the Python workers run, and the tables are writable (docs/rows.md).
"""

PROBE_TYPE = "probe"
#: The text of the row, which is always the same.
PROBE = f'{{"type":"{PROBE_TYPE}"}}'
