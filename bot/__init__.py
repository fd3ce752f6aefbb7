"""Plangate: a coding bot for GitHub that plans, asks, and only then works."""
