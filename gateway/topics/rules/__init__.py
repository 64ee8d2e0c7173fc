"""The decisions about links. Pure."""
