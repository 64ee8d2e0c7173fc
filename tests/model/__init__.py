"""Exhaustive search of small worlds: protocols of the fleet, every interleaving, every fault within a budget."""
