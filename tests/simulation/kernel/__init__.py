"""What the simulated processes stand on: a clock that jumps, nodes that stop and die, a network that fails."""
