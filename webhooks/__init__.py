"""The webhook service's shell."""
