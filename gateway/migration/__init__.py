"""A migration as one thing: found out, written down, carried out step by step, judged, and told."""
