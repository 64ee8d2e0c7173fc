"""`lockgate migration` and `lockgate report`."""
