"""Which groups may read on the target, who waits, and which gates a leader keeps shut. Pure."""
