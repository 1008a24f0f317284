"""Handlers of requests that list, describe and delete groups, and describe, alter and delete their offsets."""
