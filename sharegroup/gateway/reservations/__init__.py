"""Delivers new records without waiting for the job, at offsets that the job has reserved for this gateway.

Start with `partition_reservation.py`. The job's part is in `sharegroup.core.share_partition.reservation`.
"""
