"""What a name, a topic id, a topic config or an error code means. Pure."""
