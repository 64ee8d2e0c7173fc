"""`make demo-topologies`: a chain, links both ways, and two sources of one target, between three clusters at once."""
