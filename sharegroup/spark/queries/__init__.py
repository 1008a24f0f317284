"""The two stateful queries, and the sources that feed them."""
