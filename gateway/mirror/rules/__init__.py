"""Which direction a mirror goes, whether its source is still the same, how far it is. Pure."""
