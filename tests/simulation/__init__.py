"""The deterministic simulation: the real code of job, gateways and members in one process, in virtual time, from one
seed. Its checks use only what clients sent and received. `python -m tests.simulation.simulate`."""
