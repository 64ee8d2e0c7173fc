"""The direction of a mirror, its progress, and the check that its source is still the same. Pure."""
