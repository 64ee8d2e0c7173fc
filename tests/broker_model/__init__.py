"""The broker model against real brokers: the same random requests must give the same answers."""
