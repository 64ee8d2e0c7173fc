"""Where a write goes now, and which operations pause it. Pure."""
