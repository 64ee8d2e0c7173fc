"""/v3/links/{link}/groups: mirror groups."""
