"""Requests that go on to the brokers: what each needs, what of it goes on, and what is answered in place of the rest."""
