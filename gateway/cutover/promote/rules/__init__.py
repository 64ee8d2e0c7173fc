"""The resolver of a promote: snapshot in, next step out, with what must hold. Pure."""
