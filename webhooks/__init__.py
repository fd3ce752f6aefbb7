"""The webhook service. SHELL."""
