"""What of a link may be changed, and what that asks for. Pure."""
