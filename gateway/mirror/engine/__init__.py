"""The mirror of one process: its links, topics, fetchers and destinations."""
