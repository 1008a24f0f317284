"""Requests that go on to the brokers: what each needs, what of it goes on, and the answers in place of the rest."""
