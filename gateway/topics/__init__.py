"""Links and mirror topics: created, described, configured, followed."""
