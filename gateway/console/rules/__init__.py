"""What the console shows, and what of it has changed. Pure."""
