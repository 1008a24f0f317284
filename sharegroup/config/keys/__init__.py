"""The keys of each section of the configuration file."""
