"""Transactional producers: who they are on each cluster, and where their transactions live."""
