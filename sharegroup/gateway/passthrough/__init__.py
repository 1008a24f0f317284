"""Authorization of the requests that the gateway forwards to the brokers."""
