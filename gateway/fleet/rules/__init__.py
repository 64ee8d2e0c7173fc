"""The decisions of the fleet: assignment, membership, leases, takeover, ownership transfer. Pure."""
