"""One client connection: its bytes, its order, its end."""
