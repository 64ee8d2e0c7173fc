"""The decisions about groups: which are mirror groups, the next step of a promote, what is synced. Pure."""
