"""Handlers of the requests that the gateway answers itself, one module per family of APIs."""
