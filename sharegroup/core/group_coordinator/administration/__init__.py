"""Administrative requests: alter and delete offsets, configs, members and groups."""
