"""What is decided about migrations: snapshots in, answers out."""
