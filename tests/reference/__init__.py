"""The reference pages of the documentation that are generated from the code.

- `python -m tests.reference` writes them.
- tests/unit/test_reference_pages.py fails if one of them is not current.

Configurations, row fields and the command line have pages of their own below docs/reference. The columns of the tables
and the metrics are tables inside of hand-written pages (docs/tables.md and docs/metrics.md), which are replaced there.
"""
