"""What is counted: the metrics of the job and of the gateway, each declared once, and what they add up to.

PURE: no clock, no threads, no HTTP. Whoever counts on several threads holds a lock; `exporter` shows what there is.
"""
