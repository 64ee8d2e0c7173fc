"""The gate that keeps a group from reading on the target while it has members on the source."""
