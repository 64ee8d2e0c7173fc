"""Schemas: what records are encoded with follows them, from the source's schema registry to the target's."""
