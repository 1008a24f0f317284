"""Authorization of requests that the gateway forwards to the brokers."""
