"""What clients may do: ACLs that follow the source's, and the question who may do what where."""
