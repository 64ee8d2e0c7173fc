"""`lockgate mirror`."""
