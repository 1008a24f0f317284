"""Records as clients get them: read, cached, cut out of batches."""
