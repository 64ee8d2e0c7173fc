"""The resolver of a failback, and a failback promote in the words of a promote. Pure."""
