"""Shows that the checker is not silent: faults are seeded into histories and into gateways, and must be found.

`make test-mutations` runs all of them and prints their number in its last line.
"""
