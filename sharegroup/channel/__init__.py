"""How members and gateways reach the job: client settings, request rows out, response rows in."""
