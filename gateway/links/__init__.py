"""Links: created, checked, changed while they run, and run where this gateway leads."""
