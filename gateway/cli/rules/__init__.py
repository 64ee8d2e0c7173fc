"""How tables are laid out: pure."""
