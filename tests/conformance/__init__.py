"""The conformance page: what Kafka requires of share groups, and the test of ours that proves each behaviour.

- `behaviours/NN_area.yaml`: the behaviours, one file per section of the page.
- `kafka_tests.yaml`: the test methods of Kafka's about share groups. Each of them is in a behaviour, or in
  `client_only.yaml` if it tests only code inside Kafka's own client.
- `python -m tests.conformance` writes docs/conformance.md.
"""
