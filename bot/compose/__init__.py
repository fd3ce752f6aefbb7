"""Builds the adapters and joins them to the ports: the only room that knows everybody."""
