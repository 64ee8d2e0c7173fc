"""Copied ACLs as records, and the options that say which."""
