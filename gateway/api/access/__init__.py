"""Who may do what over REST: proof of who asks, roles, the front of the HTTP server, the audit trail."""
