"""Mirror topics: created, described, configured, followed."""
