"""REST under /v3, with Confluent's words where it has them. One room per noun; `app.py` puts them together."""
