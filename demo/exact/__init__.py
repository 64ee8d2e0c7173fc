"""`make demo-exact`: a compacted and a transactional topic go over beside a plain one, and come back."""
