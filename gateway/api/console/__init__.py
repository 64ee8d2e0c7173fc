"""/console: the web console's page, its feed, and the snapshot and partitions that it shows."""
