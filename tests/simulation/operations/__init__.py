"""What an operator asks for and what clients do for it, operation by operation, to the rest at the end of a run."""
