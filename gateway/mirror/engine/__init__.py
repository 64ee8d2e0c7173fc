"""The mirror of one process: links, topics, fetchers, and who appends."""
