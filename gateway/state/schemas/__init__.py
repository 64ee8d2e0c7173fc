"""Copied schemas as records, and the options that say which."""
