"""The web page of `sharegroup ui` (docs/ui.md).

It shows groups, the records in flight of share-partitions (windows), the history of records, and dead ends: records
that were rejected or archived.
"""
