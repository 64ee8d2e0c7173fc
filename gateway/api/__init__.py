"""REST under /v3, with Confluent's words where it has them. One file per noun; `app.py` puts them together."""
