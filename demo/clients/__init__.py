"""The demo's clients: each one a process of its own that logs what it did as JSON lines on stdout."""
