"""The deterministic simulation: the real code of job, gateways and members in one process, in virtual time, from one
seed, with a judge who sees only what clients sent and were answered. `python -m tests.simulation.simulate`."""
