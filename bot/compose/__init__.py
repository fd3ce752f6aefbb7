"""Builds the adapters and joins them to the ports. Only this package may import all others."""
