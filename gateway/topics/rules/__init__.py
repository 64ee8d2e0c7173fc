"""The decisions about mirror topics. Pure."""
