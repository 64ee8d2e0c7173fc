"""Where a Produce goes: planned, forwarded to the source, counted, held."""
