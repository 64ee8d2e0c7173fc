"""Secrets of links: kept as references or encrypted, read where they are used."""
