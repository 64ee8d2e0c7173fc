"""How clusters and fleets hang together. Pure."""
