"""What a secret of a link is made of, as text. Pure."""
