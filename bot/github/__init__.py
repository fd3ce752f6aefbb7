"""Translates between GitHub's API and the core types, and decides nothing. GitHub's JSON stays in this package."""
