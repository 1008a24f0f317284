"""Delivery of new records without waiting for the job, from offsets that the job has reserved for this gateway.

Start with `partition_reservation.py`. The rules of the job are in `sharegroup.core.share_partition.reservation`.
"""
