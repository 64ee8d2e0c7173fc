"""/v3/migrations: a migration as one thing, and what it is discovered and judged by."""
