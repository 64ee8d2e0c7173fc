"""The gateways of a fleet: membership, leadership, who mirrors which partition, leases. See docs/operate/fleet.md."""
