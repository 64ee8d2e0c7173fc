"""One partition's mirror without I/O: answers in, commands out. Pure."""
