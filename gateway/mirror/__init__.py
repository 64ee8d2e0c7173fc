"""The mirror: copies what the source committed to the target, in order and exactly."""
