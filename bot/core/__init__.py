"""Nouns: what things are and what may happen. Pure: no input or output, no waiting, no clock."""
