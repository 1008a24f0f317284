"""Data formats: rows in the job's three Kafka topics, and messages of Kafka's protocol.

Members, gateways and the job exchange the rows.
"""
