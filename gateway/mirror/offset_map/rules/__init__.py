"""Which source offset has which target offset, and what of the map is in force. Pure."""
