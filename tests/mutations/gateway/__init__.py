"""Gateways with a fault: patched in a process of their own, run against real brokers, and found out by the checker."""
