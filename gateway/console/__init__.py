"""The web console: what it shows, as one snapshot a second, and the page that shows it.

A snapshot is made of numbers and records that the gateway has at hand (`rules/snapshot.py`); nobody is asked for it. A
feed (`feed.py`) tells whoever listens what has changed since the last one. The page (`page/`) is plain modules of
JavaScript without any library; what it changes goes through the REST API like everybody else's.
"""
