"""The decisions about links and mirror topics. Pure."""
