"""How the gateway asks the job: request rows out, responses in."""
