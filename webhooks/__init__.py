"""The webhook service: HTTP, inbox, worker, and ticker."""
