"""The commands that run until they are stopped: broker, gateway, job and ui."""
